"""Python functions as handlers: their stored names, the way back, and what their code looks like.

A graph stores a name, never code. `module:qualname` needs no registration; `@handler("crm.clean")`
gives a shared name. A notebook's functions live in `__main__`, for which its stem stands. Calling
handlers is the engine's business; a flow's dependencies (parameter names) are the flow's.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import re
import sys
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

from workbench.errors import HandlerError

Handler: TypeAlias = Callable[..., Any]
_F = TypeVar("_F", bound=Handler)

_SHARED_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_MAIN: Final = "__main__"

_functions: dict[str, Handler] = {}
_names: weakref.WeakKeyDictionary[Handler, str] = weakref.WeakKeyDictionary()


@dataclass(slots=True)
class _Main:
    """What `connect(namespace=…)` said about this process's `__main__`."""

    namespace: str | None = None


_main = _Main()


def handler(name: str) -> Callable[[_F], _F]:
    """Give a function a name of its own, shared by all modules and notebooks that define it.

    Decorating again from the same place (a re-run cell) replaces the function.

    Raises:
        HandlerError: the name is malformed or belongs to another function.
    """
    if not _SHARED_NAME.fullmatch(name):
        raise HandlerError(
            f"{name!r} cannot name a handler; use letters, digits and . _ / -, as in "
            '@handler("crm.clean")'
        )

    def register(fn: _F) -> _F:
        _refuse(fn)
        known = _functions.get(name)
        if known is not None and _place(known) != _place(fn):
            raise HandlerError(
                f"handler {name!r} is already {_place(known)}; choose another name for {_place(fn)}"
            )
        _functions[name] = fn
        _names[fn] = name
        return fn

    return register


def handler_name(fn: Handler, namespace: str | None = None) -> str:
    """Return the name under which graphs store a function.

    Parameters:
        namespace: stands for `__main__`; by default the notebook's stem, see `main_namespace`.

    Raises:
        HandlerError: a lambda, nested function, method, class or other callable.
    """
    _refuse(fn)
    if (name := _names.get(fn)) is not None:
        return name
    module = fn.__module__
    if module == _MAIN:
        module = namespace or main_namespace()
    return f"{module}:{fn.__qualname__}"


def is_at_hand(fn: Handler) -> bool:
    """Tell whether a function of the notebook or script can be found there by its name."""
    return fn.__module__ != _MAIN or fn in _names or hasattr(sys.modules[_MAIN], fn.__qualname__)


def lookup(name: str, *, load: bool = True) -> Handler:
    """Return the function of a stored name, importing its module when needed.

    Parameters:
        load: False imports nothing: what this process has not loaded yet is missing.

    Raises:
        HandlerError: nothing is registered under the name, or its module or function is missing.
    """
    if (known := _functions.get(name)) is not None:
        return known
    module_name, colon, qualname = name.partition(":")
    if not colon:
        raise HandlerError(
            f"no handler {name!r} in this process; import the module (or run the cell) that has "
            f"@handler({name!r})"
        )
    if not load and module_name != main_namespace() and _loaded(module_name) is None:
        raise HandlerError(f"module {module_name!r} of handler {name!r} is not loaded")
    found: object = _module(module_name, name)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise HandlerError(
            f"module {module_name!r} has no function {qualname!r}; run the cell that defines it, "
            f"or start the run anew after a renaming"
        )
    return found


def is_importing() -> bool:
    """Tell whether this thread is just importing a module for the sake of a handler in it."""
    return _importing.get()


def registered() -> tuple[str, ...]:
    """Return the shared names registered in this process, sorted."""
    return tuple(sorted(_functions))


def set_namespace(namespace: str | None) -> None:
    """Set what stands for `__main__` where no notebook name is known; None forgets it."""
    if namespace is not None and (not namespace or ":" in namespace):
        raise HandlerError(f"namespace {namespace!r} must be a non-empty text without a colon")
    _main.namespace = namespace


def main_namespace() -> str:
    """Return what stands for `__main__` in stored names.

    The notebook's stem (`JPY_SESSION_NAME`, or VS Code's variable), else what `set_namespace`
    said, else the module that `python -m` runs, else the script's stem, else `__main__`.
    """
    main = sys.modules[_MAIN]
    script = getattr(main, "__file__", None)
    notebook = getattr(main, "__vsc_ipynb_file__", None)
    if notebook is None and script is None:
        # A script that a notebook starts inherits the variable, but is not that notebook.
        notebook = os.environ.get("JPY_SESSION_NAME")
    if notebook:
        return _stem(notebook)
    if _main.namespace is not None:
        return _main.namespace
    if (spec := getattr(main, "__spec__", None)) is not None:
        return str(spec.name)
    return _stem(script) if script else _MAIN


def fingerprint(fn: Handler) -> str:
    """Return 12 hex digits that change when a function's code or defaults change.

    Line numbers and comments do not count; the digits differ between Python versions.
    """
    import hashlib

    plain = inspect.unwrap(fn)
    code = getattr(plain, "__code__", None)
    described = (
        _describe(code),
        _describe(getattr(plain, "__defaults__", None)),
        _describe(getattr(plain, "__kwdefaults__", None)),
    )
    return hashlib.sha256(repr(described).encode(errors="replace")).hexdigest()[:12]


def dataframe_parameters(fn: Handler) -> frozenset[str]:
    """Return the parameters annotated as `pandas.DataFrame` (or optional), pandas not imported."""
    plain = inspect.unwrap(fn)
    scope = getattr(plain, "__globals__", {})
    annotations = getattr(plain, "__annotations__", {})
    return frozenset(
        name
        for name, annotation in annotations.items()
        if name != "return" and _is_dataframe(annotation, scope)
    )


def _refuse(fn: object) -> None:
    reason = _fault(fn)
    if reason is not None:
        raise HandlerError(
            f"{_shown(fn)} cannot be a handler: {reason}. Define a function with `def` at the "
            "top level of a module or a notebook cell"
        )


def _fault(fn: object) -> str | None:
    if isinstance(fn, functools.partial):
        return "a partial has no name by which another process could find it"
    if inspect.ismethod(fn):
        return "a method needs its object, which is not stored"
    if inspect.isclass(fn):
        return "a class is not a function"
    if not inspect.isroutine(fn):
        return "it is not a function"
    qualname = getattr(fn, "__qualname__", "")
    if "<lambda>" in qualname:
        return "a lambda has no name by which another process could find it"
    if "<locals>" in qualname:
        return "it is defined inside another function, where another process cannot find it"
    if not getattr(fn, "__module__", None):
        return "it has no module"
    if "." in qualname:
        return "it is defined inside a class"
    return None


def _shown(fn: object) -> str:
    return str(getattr(fn, "__qualname__", None) or repr(fn))


def _place(fn: Handler) -> str:
    return f"{fn.__module__}:{fn.__qualname__}"


def _stem(path: str) -> str:
    return Path(path).stem.replace(":", "_") or _MAIN


def _loaded(module_name: str) -> object | None:
    """A module that has been imported, to its end."""
    module = sys.modules.get(module_name)
    unfinished = getattr(getattr(module, "__spec__", None), "_initializing", False)
    return None if unfinished else module


_importing: ContextVar[bool] = ContextVar("workbench_importing", default=False)


def _module(module_name: str, name: str) -> object:
    if module_name in (_MAIN, main_namespace()):
        # Read anew each time, so that a re-run cell's function serves the next attempt.
        return sys.modules[_MAIN]
    if (module := _loaded(module_name)) is not None:
        return module
    before = _importing.set(True)
    try:
        return importlib.import_module(module_name)
    except BaseException as error:  # a script may end the process where it is imported
        raise HandlerError(
            f"handler {name!r} cannot be imported: {type(error).__name__}: {error}; install "
            f"{module_name!r} where this engine runs, or open the notebook that defines it"
        ) from error
    finally:
        _importing.reset(before)


# Generator, coroutine, *args and so on; the higher bits tell of `from __future__ import`.
_OWN_FLAGS: Final = 0x3FF


def _describe(item: object) -> object:
    """Turn code and constants into plain values whose repr is the same in every process."""
    if inspect.iscode(item):
        return (
            item.co_code,
            item.co_names,
            item.co_varnames,
            item.co_freevars,
            item.co_flags & _OWN_FLAGS,
            [_describe(constant) for constant in item.co_consts],
        )
    if isinstance(item, tuple | list):
        return [_describe(part) for part in item]
    if isinstance(item, frozenset | set):
        return sorted(repr(_describe(part)) for part in item)
    if isinstance(item, dict):
        return [(key, _describe(part)) for key, part in item.items()]
    if item is None or isinstance(item, str | bytes | int | float | complex):
        return (type(item).__name__, item)
    return type(item).__qualname__


_FRAME_TEXT: Final = re.compile(r"(?:(\w+)\.)?DataFrame")
_OPTIONAL_TEXT: Final = re.compile(r"(?:\w+\.)?Optional\[(.+)\]")


def _is_dataframe(annotation: object, scope: dict[str, Any]) -> bool:
    if isinstance(annotation, str):
        return _names_dataframe(annotation, scope)
    if isinstance(annotation, type):
        return _is_pandas(annotation)
    return any(_is_dataframe(part, scope) for part in getattr(annotation, "__args__", ()))


def _names_dataframe(text: str, scope: dict[str, Any]) -> bool:
    """Read an annotation that is text, as `from __future__ import annotations` makes it."""
    if optional := _OPTIONAL_TEXT.fullmatch(text.strip()):
        text = optional[1]
    for part in text.split("|"):
        match = _FRAME_TEXT.fullmatch(part.strip().strip("'\""))
        if match is None:
            continue
        prefix = match[1]
        owner = scope.get(prefix or "DataFrame")
        if owner is None:
            # Imported for type checkers only: go by the usual names.
            return prefix in (None, "pd", "pandas")
        return _is_pandas(owner if prefix is None else getattr(owner, "DataFrame", None))
    return False


def _is_pandas(kind: object) -> bool:
    module = str(getattr(kind, "__module__", "")).partition(".")[0]
    return module == "pandas" and getattr(kind, "__name__", "") == "DataFrame"
