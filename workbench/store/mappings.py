"""Variables and settings as mappings: each access is a call in the database, nothing is kept here."""

from __future__ import annotations

import json
from collections.abc import Iterator, MutableMapping
from typing import Any

import psycopg

from workbench.errors import UsageError
from workbench.store.database import Database

__all__ = ["Settings", "Variables"]


class Variables(MutableMapping[str, str]):
    """The caller's variables: `{name}` in the steps of runs that are started from now on.

    The same as `df.setvar` and its family; only rows of one's own are seen and touched.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def _all(self) -> dict[str, str]:
        with self._database.connection() as conn:
            rows = conn.execute(
                "SELECT name, value FROM df.vars WHERE owner = df._me() AND value IS NOT NULL"
                " ORDER BY name"
            ).fetchall()
        return dict(rows)

    def __getitem__(self, name: str) -> str:
        return self._all()[name]

    def __setitem__(self, name: str, value: object) -> None:
        if not isinstance(value, str) or "\x00" in value:
            raise UsageError(
                f"a variable is text without NUL, not {value!r:.80}: {name!r} was left as it is. "
                "Pass str(…); steps that need another type cast it."
            )
        with self._database.connection() as conn:
            conn.execute("SELECT df.setvar(%s, %s)", (name, value))

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        with self._database.connection() as conn:
            conn.execute("SELECT df.unsetvar(%s)", (name,))

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"<Variables {self._all()}>"


class Settings(MutableMapping[str, Any]):
    """The settings of schema `df`: readable by all, changed by its owner and those it lets.

    Deleting one returns it to its default. Most are read when an engine starts.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def _all(self) -> dict[str, Any]:
        with self._database.connection() as conn:
            rows = conn.execute(
                "SELECT k.name, df._setting(k.name) FROM df._known_settings() k ORDER BY k.name"
            ).fetchall()
        return {name: value for name, value in rows if value is not None}

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._set(name, json.dumps(value))

    def __delitem__(self, name: str) -> None:
        self._set(name, None)

    def _set(self, name: str, value: str | None) -> None:
        with self._database.connection() as conn:
            try:
                conn.execute("SELECT df.set_setting(%s, %s)", (name, value))
            except psycopg.errors.InvalidParameterValue as refused:
                hint = f" {refused.diag.message_hint}" if refused.diag.message_hint else ""
                raise UsageError(f"{refused.diag.message_primary}.{hint}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"<Settings {self._all()}>"
