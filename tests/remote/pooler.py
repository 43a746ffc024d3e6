"""A real PgBouncer before the tests' server, on a Unix socket of its own or on a port of 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.engine.support import wait_until

__all__ = ["Pooler"]

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


class Pooler:
    """One PgBouncer in a pooling mode; `dsn` leads to the same database as the given one.

    Settings are those of `pgbouncer.ini`; `users` are roles it lets in, with their passwords, and
    `tcp` puts it on a port.
    """

    def __init__(
        self,
        dsn: str,
        mode: str,
        *,
        pool_size: int = 5,
        users: dict[str, str] | None = None,
        tcp: bool = False,
        **settings: Any,
    ) -> None:
        if PROGRAM is None:
            pytest.skip("needs PgBouncer: apt install pgbouncer")
        server = conninfo_to_dict(dsn)
        self._folder = Path(tempfile.mkdtemp(dir="/tmp", prefix="workbench-pooler-"))
        self.port = _free_port() if tcp else 6432
        host = "127.0.0.1" if tcp else str(self._folder)
        self.dsn = make_conninfo(dsn, host=host, port=self.port)
        own = {
            "listen_port": self.port,
            "listen_addr": "127.0.0.1" if tcp else "",
            "unix_socket_dir": self._folder,
            "auth_type": "trust",
            "auth_file": self._folder / "users",
            "pool_mode": mode,
            "default_pool_size": pool_size,
        }
        lines = [f"{name} = {value}" for name, value in (own | settings).items()]
        where = f"host={server['host']} port={server.get('port', 5432)}"
        (self._folder / "ini").write_text(
            "\n".join(["[databases]", f"* = {where}", "[pgbouncer]", *lines, ""])
        )
        names = {str(server["user"]): ""} | (users or {})
        (self._folder / "users").write_text("".join(f'"{n}" "{p}"\n' for n, p in names.items()))
        self._process = self._start(Path(str(server["host"])))

    def _start(self, server: Path) -> subprocess.Popen[bytes]:
        # It refuses to run as root, and must reach the server's socket: as that one's user, then.
        account: dict[str, Any] = {}
        if os.geteuid() == 0:
            owner = server.stat()
            account = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []}
            for path in (self._folder, *self._folder.iterdir()):
                os.chown(path, owner.st_uid, owner.st_gid)
        log = (self._folder / "log").open("wb")
        process = subprocess.Popen(
            [str(PROGRAM), str(self._folder / "ini")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd="/",
            **account,
        )
        log.close()
        try:
            wait_until(lambda: "process up" in self.log, what="PgBouncer is there")
        except AssertionError:
            process.kill()
            process.wait()
            raise
        return process

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        shutil.rmtree(self._folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
