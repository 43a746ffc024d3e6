"""`%load_ext workbench`: the cell magic `%%df`, SQL against a bench with the rows as a DataFrame.

    %%df -o orders
    SELECT * FROM orders WHERE day = current_date

Runs that the statement starts are shown, live.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring
from IPython.display import display

from workbench.bench import Bench
from workbench.connecting import connect

if TYPE_CHECKING:
    import pandas

    from workbench.run import Run

__all__ = ["DfMagics"]

_RUN = re.compile(r"[0-9a-f]{8}")
_SHOWN = 5  # started runs


@magics_class
class DfMagics(Magics):
    """The magic of a notebook."""

    @magic_arguments()
    @argument("-o", "--out", metavar="NAME", help="also keep the DataFrame under this name")
    @argument("bench", nargs="?", help="the name of the bench; by default the notebook's own")
    @line_cell_magic
    def df(self, line: str, cell: str | None = None) -> pandas.DataFrame | None:
        """Run SQL and return its rows as a DataFrame: `%%df`, or `%df SELECT …` in a line."""
        if cell is None:
            return self._query(self._bench(None), line)
        asked = parse_argstring(self.df, line)
        frame = self._query(self._bench(asked.bench), cell)
        if asked.out:
            self._names[asked.out] = frame
        return frame

    def _query(self, bench: Bench, sql: str) -> pandas.DataFrame | None:
        if not sql.strip():
            raise UsageError("%%df takes one SQL statement, in the lines below it")
        before = bench.query("SELECT df.now()").iloc[0, 0]
        try:
            frame = bench.query(sql)
        except psycopg.Error as failed:
            state = f" [{failed.sqlstate}]" if failed.sqlstate else ""
            raise UsageError(f"{str(failed).strip()}{state}") from failed
        for run in _started(bench, frame, before)[:_SHOWN]:
            bench.work_unless_held()
            display(run)
        return frame

    @property
    def _names(self) -> dict[str, Any]:
        assert self.shell is not None
        names: dict[str, Any] = self.shell.user_ns
        return names

    def _bench(self, name: str | None) -> Bench:
        """The bench of that name, the only one of the notebook, or a new one, named `bench`."""
        names = self._names
        if name is not None:
            if not isinstance(names.get(name), Bench):
                raise UsageError(f"{name!r} is no bench here: {name} = wb.connect()")
            return names[name]  # type: ignore[no-any-return]
        found = {key: value for key, value in names.items() if isinstance(value, Bench)}
        known = {id(bench): bench for key, bench in found.items() if not key.startswith("_")}
        open_ = [bench for bench in known.values() if not bench.closed]
        if isinstance(mine := found.get("bench"), Bench) and not mine.closed:
            return mine
        if len(open_) > 1:
            listed = ", ".join(sorted(found))
            raise UsageError(f"this notebook has several benches: %%df NAME, one of {listed}")
        if open_:
            return open_[0]
        bench: Bench = connect()
        names["bench"] = bench
        return bench


def _started(bench: Bench, frame: pandas.DataFrame | None, since: Any) -> list[Run]:
    """The runs that a statement has made, by the ids in its first column."""
    if frame is None or frame.shape[1] == 0:
        return []
    ids = [
        value
        for value in frame.iloc[:100, 0]
        if isinstance(value, str) and _RUN.fullmatch(value) is not None
    ]
    made = bench.query(
        "SELECT i.id FROM df.instances i WHERE i.id = ANY (%s) AND i.created_at >= %s", (ids, since)
    )
    return [bench.get(run) for run in made["id"]] if ids else []
