"""Which operating-system user the embedded server runs as, and what that user can reach.

Postgres refuses to run as root, so root starts it as another user: the owner of an existing data
folder, else the owner of the home, else `nobody`.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import EmbeddedError

if sys.platform != "win32":
    import pwd

USE_A_DSN = "give a Postgres of your own: connect(dsn) or WORKBENCH_DSN"


@dataclass(frozen=True)
class Account:
    """The user of the server process; `switch` says that it is not the one we run as."""

    uid: int
    gid: int
    name: str
    switch: bool

    @property
    def user(self) -> int | None:
        """For `subprocess(user=…)`: None keeps our own."""
        return self.uid if self.switch else None

    @property
    def group(self) -> int | None:
        """For `subprocess(group=…)`: `user=` alone would keep root's group."""
        return self.gid if self.switch else None

    @property
    def extra_groups(self) -> list[int] | None:
        """For `subprocess(extra_groups=…)`: none of root's."""
        return [] if self.switch else None

    def run(
        self,
        command: Sequence[str | Path],
        *,
        environment: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of Postgres as this user, to its end, and return what it printed."""
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd="/",  # ours may be a folder that this user cannot enter
            stdin=subprocess.DEVNULL,
            env=environment,
            user=self.user,
            group=self.group,
            extra_groups=self.extra_groups,
            pass_fds=pass_fds,
        )

    def own(self, target: Path | int) -> None:
        """Hand a file, directory or descriptor that we made to the server's user."""
        if not self.switch:
            return
        if isinstance(target, int):
            os.fchown(target, self.uid, self.gid)
        else:
            os.chown(target, self.uid, self.gid, follow_symlinks=False)


def account_for(home: Path) -> Account:
    """Choose the server's user for a home that exists."""
    uid = os.geteuid()
    if uid != 0:
        return Account(uid, os.getegid(), user_name(uid) or str(uid), switch=False)
    return _account_below_root(home)


def _account_below_root(home: Path) -> Account:
    # Only a server of its owner may open a data directory, so an existing one decides.
    for data in home.glob("pg[0-9]*"):
        owner = data.stat()
        if owner.st_uid != 0:
            name = user_name(owner.st_uid) or str(owner.st_uid)
            return Account(owner.st_uid, owner.st_gid, name, switch=True)
    for candidate in (home.stat().st_uid, _uid_of("nobody")):
        if candidate and user_name(candidate):  # initdb needs a passwd entry
            entry = pwd.getpwuid(candidate)
            return Account(entry.pw_uid, entry.pw_gid, entry.pw_name, switch=True)
    raise EmbeddedError(
        "cannot start the embedded Postgres as root: Postgres refuses to run as root, and there is "
        f"no user `nobody` to run it as; {USE_A_DSN}, or run as a plain user"
    )


def user_name(uid: int) -> str | None:
    """Return the passwd name of `uid`, None when it has no entry."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _uid_of(name: str) -> int | None:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def unreachable_part(path: Path, account: Account) -> Path | None:
    """Return the outermost part of `path` that `account` may not enter (or, a file, execute)."""
    for part in (*reversed(path.parents), path):
        status = part.stat()
        if status.st_uid == account.uid:
            bit = stat.S_IXUSR
        elif status.st_gid == account.gid:
            bit = stat.S_IXGRP
        else:
            bit = stat.S_IXOTH
        if not status.st_mode & bit:
            return part
    return None
