"""What the modules of the commands share: the type of the object they add themselves to."""

from __future__ import annotations

import argparse
from typing import TypeAlias

# Quoted: argparse's class takes no parameter at run time.
Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
