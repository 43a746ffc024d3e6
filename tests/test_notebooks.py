"""Every notebook in notebooks/, executed by a real kernel; and what is committed of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parent.parent / "notebooks"
_NOTEBOOKS = sorted(_FOLDER.glob("*.ipynb"))

every_notebook = pytest.mark.parametrize("path", _NOTEBOOKS, ids=lambda path: path.stem)


def _cells(path: Path) -> list[dict[str, Any]]:
    cells: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["cells"]
    return cells


@pytest.fixture
def kernel_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of this interpreter, that finds this package and would keep its data in `home`."""
    root = str(_FOLDER.parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("WORKBENCH_HOME", str(home))


def _executed(path: Path, directory: Path) -> list[Any]:
    """The notebook's code cells with the outputs of a fresh kernel."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(directory)}}
    NotebookClient(notebook, timeout=60, kernel_name="python3", resources=resources).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_is_a_quickstart() -> None:
    assert "01_quickstart" in [path.stem for path in _NOTEBOOKS]


@every_notebook
def test_notebooks_are_committed_without_outputs(path: Path) -> None:
    for cell in _cells(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], cell["id"]
            assert cell["execution_count"] is None, cell["id"]


@every_notebook
def test_every_cell_has_an_id_of_its_own(path: Path) -> None:
    ids = [cell["id"] for cell in _cells(path)]
    assert len(set(ids)) == len(ids)


@pytest.mark.notebook
@pytest.mark.slow
@pytest.mark.usefixtures("kernel_environment")
# Jupyter's own: its paths are about to change, and it makes event loops in the old way.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_client")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:jupyter_core")
@pytest.mark.filterwarnings("ignore::DeprecationWarning:nbformat")
@every_notebook
def test_a_notebook_runs_from_top_to_bottom(path: Path, tmp_path: Path, home: Path) -> None:
    cells = _executed(path, tmp_path)
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error", (cell.source, output)
            assert output.get("name") != "stderr", (cell.source, output.text)
    assert not home.exists(), "the notebook used the user's own database"
    assert list(tmp_path.iterdir()) == []
