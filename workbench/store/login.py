"""An engine is the role that logs in.

Which sessions are an engine's, and whether they are alive, the server tells that role only; and the
sessions of the engine's own take no settings from the DSN. So an engine whose DSN changes its role
would wait for the runs of another one.
"""

from __future__ import annotations

import re

from psycopg.conninfo import conninfo_to_dict

from workbench.errors import DatabaseError
from workbench.store.wire import Session, Statement, rows

__all__ = ["refuse_other_role"]

_ROLES = Statement(b"SELECT current_user, session_user")
_OPTION = re.compile(r"(?:-c\s*|--)role=(\S+)")


async def refuse_other_role(session: Session, dsn: str) -> None:
    """Raise unless the role that the DSN leads to is the one that logs in.

    Raises
    ------
    DatabaseError
        It is another, by the option `role` or a setting of the role or the database.
    """
    (answer,) = await session.run(_ROLES)
    ((current, login),) = rows(answer)
    option = _OPTION.search(str(conninfo_to_dict(dsn).get("options") or ""))
    role = option[1] if option else current
    if role not in (login, "none"):
        raise DatabaseError(
            f"this DSN logs in as {login} and then becomes {role}, and an engine executes the runs of the role "
            f"that logs in: it was not started. Log in as {role}. Looking works all the same: "
            "connect(dsn, engine=False)."
        )
