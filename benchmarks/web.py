"""A web server in a process of its own, so that engines do not share their interpreter with it: it
answers at once, or never at `/held`.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["serving"]

_ROOT = Path(__file__).parents[1]
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n"
    b"Connection: close\r\n\r\nok"
)


@contextmanager
def serving() -> Iterator[str]:
    """Start the server; its URL without a path. It ends with the block."""
    command = [sys.executable, "-m", "benchmarks.web"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=_ROOT) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError("the web server has not started: no figure")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if b" /held " in head.split(b"\r\n", 1)[0]:
        await reader.read()  # until the client gives up
    else:
        writer.write(_ANSWER)
    writer.close()


async def _serve() -> None:
    server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=128)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
