"""A real Jupyter kernel, one cell at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.remote.commands import environment

__all__ = ["Kernel"]


class Kernel:
    """An IPython kernel of this interpreter; `run` executes a cell."""

    def __init__(self, cwd: Path, **variables: str) -> None:
        from jupyter_client.manager import KernelManager

        self._manager = KernelManager(kernel_name="python3")
        self._manager.start_kernel(cwd=str(cwd), env=environment(**variables))
        self._client = self._manager.client()
        self._client.start_channels()
        self._client.wait_for_ready(timeout=60)

    def begin(self, cell: str) -> None:
        """Send a cell; `finish` waits for its end."""
        self._outputs: list[dict[str, Any]] = []
        self._id = self._client.execute(cell)

    def finish(self) -> str:
        """What the cell printed, and its value as text; an error's name and text when it raised."""
        text = ""
        while True:
            message = self._client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != self._id:
                continue
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    text += content["text"]
                case "execute_result":
                    text += content["data"]["text/plain"]
                case "error":
                    text += f"{content['ename']}: {content['evalue']}"
                case "status" if content["execution_state"] == "idle":
                    return text

    def displays(self, *, results: bool = True) -> list[str]:
        """The HTML of everything that the cell showed, in order, updates included."""
        shown: list[str] = []
        kinds = ["display_data", "update_display_data", *(["execute_result"] if results else [])]
        while True:
            message = self._client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != self._id:
                continue
            content = message["content"]
            if message["msg_type"] in kinds and "text/html" in content["data"]:
                shown.append(content["data"]["text/html"])
            elif content.get("execution_state") == "idle":
                return shown

    def run(self, cell: str) -> str:
        self.begin(cell)
        return self.finish()

    def interrupt(self) -> None:
        """What the stop button does."""
        self._manager.interrupt_kernel()

    def kill(self) -> None:
        """What a restart does to a kernel that does not answer."""
        self._manager.shutdown_kernel(now=True)

    def close(self) -> None:
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
