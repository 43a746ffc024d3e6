"""What the modules of the commands share: how they add themselves, with an example in their help."""

from __future__ import annotations

import argparse
from typing import TypeAlias

__all__ = ["Parsers", "with_example"]

# Quoted: argparse's class takes no parameter at run time.
Parsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def with_example(
    parsers: Parsers, name: str, text: str, description: str | None, *examples: str
) -> argparse.ArgumentParser:
    """Add a command: `text` is its line in the list, the examples end its own help."""
    return parsers.add_parser(
        name,
        help=text,
        description=description or text,
        epilog="\n".join(
            [f"example{'s' if len(examples) > 1 else ''}:", *(f"  {e}" for e in examples)]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
