"""A Jupyter server on a free port of this machine, with directories of its own: JupyterLab, Notebook 7
or Voilà.

Its notebooks' kernels are this interpreter and find this package. Nothing of the user's Jupyter is
read or written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Lab", "serve", "write_notebook"]

_ROOT = Path(__file__).parents[2]
_TOKEN = "tests"
_SETTINGS = {
    "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False},
    "@jupyterlab/apputils-extension:themes": {"theme": "JupyterLab Light"},
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},  # all cells in the DOM
}
_PAGES = {"jupyterlab": "doc/tree", "notebook": "notebooks", "voila": "voila/render"}
_DIRECTORIES = {
    "JUPYTER_CONFIG_DIR": "config",
    "JUPYTER_DATA_DIR": "data",
    "JUPYTER_RUNTIME_DIR": "runtime",
    "IPYTHONDIR": "ipython",
    "JUPYTERLAB_SETTINGS_DIR": "settings",
    "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
}
# A kernelspec, else a dialog asks for one.
_METADATA = {
    "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True)
class Lab:
    """A running server: its address, ending in a slash, and the directory of its notebooks."""

    url: str
    notebooks: Path
    page: str = "doc/tree"

    def address(self, name: str) -> str:
        """Where a notebook opens, in a workspace that remembers nothing."""
        return f"{self.url}{self.page}/{name}?token={_TOKEN}&reset"


def write_notebook(path: Path, cells: list[str]) -> None:
    """Write a notebook of code cells; with `json`, because nbformat takes seconds to import."""
    written: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "source": cell.strip(),
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for number, cell in enumerate(cells)
    ]
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": _METADATA, "cells": written}
    path.write_text(json.dumps(notebook), encoding="utf-8")


@contextmanager
def serve(root: Path, application: str = "jupyterlab") -> Iterator[Lab]:
    """Run a server of an application, `jupyterlab`, `notebook` or `voila`, in `root` until the end of the
    block; its kernels end with it.
    """
    for name in ("notebooks", "app"):
        (root / name).mkdir()
    (root / "app" / "overrides.json").write_text(json.dumps(_SETTINGS))
    with (root / "server.log").open("wb") as log:
        process = subprocess.Popen(
            _command(root, application), env=environment(root), stdout=log, stderr=log, cwd=root
        )
    try:
        yield Lab(_wait(process, root), root / "notebooks", _PAGES[application])
    finally:
        process.terminate()
        process.wait(20)


def environment(root: Path) -> dict[str, str]:
    """The environment of a Jupyter that keeps everything in `root`."""
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    own = {name: str(root / directory) for name, directory in _DIRECTORIES.items()}
    return os.environ | own | {"PYTHONPATH": path, "WORKBENCH_HOME": str(root / "no-home")}


def _command(root: Path, application: str) -> list[str]:
    if application == "voila":  # as an extension: its pages need no token of their own
        application = "jupyter_server"
    return [
        *(sys.executable, "-m", application, "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", "--port=0", f"--IdentityProvider.token={_TOKEN}"),
        f"--ServerApp.root_dir={root / 'notebooks'}",
        f"--LabApp.app_settings_dir={root / 'app'}",
        "--LabApp.expose_app_in_browser=True",  # gives window.jupyterapp
        "--JupyterNotebookApp.expose_app_in_browser=True",
        f"--ServerApp.jpserver_extensions={{'voila.server_extension': {application == 'jupyter_server'}}}",
    ]


def _wait(process: subprocess.Popen[bytes], root: Path) -> str:
    """Return the server's address once it answers; the port is in its runtime file."""
    runtime = root / "runtime" / f"jpserver-{process.pid}.json"
    deadline = time.monotonic() + 90
    while True:
        assert process.poll() is None, (root / "server.log").read_text()
        assert time.monotonic() < deadline, (root / "server.log").read_text()
        try:
            url = str(json.loads(runtime.read_text())["url"])
            urllib.request.urlopen(f"{url}api/status?token={_TOKEN}", timeout=10).read()
        except (OSError, ValueError):
            time.sleep(0.1)
        else:
            return url
