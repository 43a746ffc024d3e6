"""The database of a bench as a database: variables, settings, who may use it, queries and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.bench_base import Opened
from workbench.store import roles, tables
from workbench.store.mappings import Settings, Variables

if TYPE_CHECKING:
    import pandas

__all__ = ["Administration"]


class Administration(Opened):
    """What a `Bench` does beside runs."""

    # What runs see, and what engines go by.

    @property
    def vars(self) -> Variables:
        """The caller's variables, as a mapping: `bench.vars["region"] = "eu"`."""
        return Variables(self._database)

    @property
    def settings(self) -> Settings:
        """The settings of this database, as a mapping: `bench.settings["heartbeat_limit"]`."""
        return Settings(self._database)

    # Who may use it.

    def grant(self, role: str, *, http: bool = False) -> None:
        """Let a role start runs and execute its own; with `http`, also HTTP steps.

        Raises
        ------
        UsageError
            There is no such role; its name is written as it is stored, without quotes.
        DatabaseError
            This role may not let others in.
        """
        with self._database.connection() as conn:
            roles.grant_usage(conn, role, http=http)

    def revoke(self, role: str) -> None:
        """End whatever a role may do here; its runs stay. Errors as `grant`."""
        with self._database.connection() as conn:
            roles.revoke_usage(conn, role)

    def grant_read(self, role: str) -> None:
        """Let a role that uses the workbench look at one's own runs, those to come as well.

        Raises
        ------
        UsageError
            There is no such role.
        DatabaseError
            It may not use the workbench itself: `grant` comes first.
        """
        with self._database.connection() as conn:
            roles.grant_read(conn, role)

    def revoke_read(self, role: str) -> None:
        """Undo `grant_read`; nothing happens when there is nothing to undo."""
        with self._database.connection() as conn:
            roles.revoke_read(conn, role)

    # The database as a database.

    def query(self, sql: str, parameters: Any = None) -> pandas.DataFrame:
        """Rows of a query as a DataFrame; `%s` placeholders take `parameters`.

        Raises
        ------
        psycopg.Error
            The statement failed.
        """
        with self._database.connection() as conn:
            return tables.query(conn, sql, parameters)

    def load(self, frame: pandas.DataFrame, table: str, *, replace: bool = False) -> int:
        """Make a table of a DataFrame: columns by their dtypes, the index left out.

        Parameters
        ----------
        table:
            `name` or `schema.name`.
        replace:
            Drop a table of that name first; else it must not exist.

        Returns
        -------
        int
            Rows written.

        Raises
        ------
        UsageError
            The table exists, or the frame has no columns or doubly named ones.
        """
        with self._database.connection() as conn:
            return tables.load(conn, frame, table, replace=replace)
