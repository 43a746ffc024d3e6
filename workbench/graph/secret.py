"""`secret`: a reference to something that is never stored, for HTTP steps.

The graph holds `{secret:NAME}`; the engine that makes the request puts the value there, from its
own environment. How it does so is the engine's business.
"""

from __future__ import annotations

from workbench.errors import GraphError
from workbench.graph.shapes import is_identifier


class Secret(str):
    """The stored form of a secret, as text that can be put into longer text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"secret({self.removeprefix('{secret:').removesuffix('}')!r})"


def secret(name: str) -> Secret:
    """Refer to a secret in a header, the URL or the body of an HTTP step.

    `headers={"Authorization": "Bearer " + secret("API_TOKEN")}`. Its value is looked up by the
    engine when it makes the request, by default in the engine's environment; it is stored nowhere
    and shown nowhere.

    Raises:
        GraphError: the name is not an identifier.
    """
    if not is_identifier(name):
        raise GraphError(
            f"secret({name!r}): not a name; use letters, digits and underscores, as for an "
            "environment variable"
        )
    return Secret(f"{{secret:{name}}}")
