"""The README's code, as it stands there, run by a fresh interpreter; and its links."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_README = (_ROOT / "README.md").read_text("utf-8")
_CODE = re.findall(r"```python\n(.*?)```", _README, re.DOTALL)


def test_there_is_one_piece_of_code_of_about_ten_lines() -> None:
    (code,) = _CODE
    assert 8 <= len([line for line in code.splitlines() if line.strip()]) <= 12


def test_the_code_prints_what_its_comment_says(tmp_path: Path, home: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(_CODE[0], encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(_ROOT), "WORKBENCH_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=100
    )
    (expected,) = re.findall(r"print\(.*\)  # (.+)", _CODE[0])
    assert (done.stdout, done.stderr, done.returncode) == (f"{expected}\n", "", 0)


def test_links_lead_to_files_that_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", _README):
        assert (_ROOT / target).is_file(), target
