"""Names of functions, and the way back."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pandas as pd
import pytest

from workbench.errors import HandlerError
from workbench.graph import handlers
from workbench.graph.handlers import (
    dataframe_parameters,
    fingerprint,
    handler,
    handler_name,
    lookup,
    main_namespace,
    registered,
    set_namespace,
)


def clean(rows: list[int]) -> list[int]:
    return rows


class Holder:
    def method(self) -> None: ...

    @staticmethod
    def static() -> None: ...


def _inner() -> Callable[[], None]:
    def nested() -> None: ...

    return nested


def _function(source: str, module: str = __name__) -> Any:
    scope: dict[str, Any] = {"__name__": module}
    exec(compile(source, "<cell>", "exec"), scope)
    return scope["f"]


@pytest.fixture(autouse=True)
def fresh_registry() -> Iterator[None]:
    before = dict(handlers._functions)
    yield
    handlers._functions.clear()
    handlers._functions.update(before)
    set_namespace(None)


def test_a_function_is_found_again_by_its_name() -> None:
    assert handler_name(clean) == f"{__name__}:clean"
    assert lookup(f"{__name__}:clean") is clean
    assert lookup(handler_name(math.sqrt)) is math.sqrt


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda: 1, "a lambda has no name"),
        (_inner(), "inside another function"),
        (Holder().method, "a method needs its object"),
        (Holder.method, "defined inside a class"),
        (Holder.static, "defined inside a class"),
        (Holder, "a class is not a function"),
        (functools.partial(clean, []), "a partial has no name"),
        ("abc".upper, "it has no module|a method needs its object"),
        (np.add, "it is not a function"),
        (5, "it is not a function"),
    ],
)
def test_what_cannot_be_found_again_is_refused(fn: Any, reason: str) -> None:
    with pytest.raises(HandlerError, match=reason):
        handler_name(fn)


def test_a_shared_name_replaces_module_and_qualname() -> None:
    fn = _function("def f(): return 1")
    assert handler("crm.clean")(fn) is fn
    assert handler_name(fn) == "crm.clean"
    assert lookup("crm.clean") is fn
    assert "crm.clean" in registered()


def test_a_re_run_cell_replaces_the_function() -> None:
    handler("crm.clean")(_function("def f(): return 1"))
    second = handler("crm.clean")(_function("def f(): return 2"))
    assert lookup("crm.clean") is second


def test_a_shared_name_belongs_to_one_place() -> None:
    handler("crm.clean")(_function("def f(): return 1"))
    with pytest.raises(HandlerError, match=r"already .*:f; choose another name for other:f"):
        handler("crm.clean")(_function("def f(): return 1", module="other"))


@pytest.mark.parametrize("name", ["", "a:b", "a b", ".a"])
def test_a_shared_name_must_be_one(name: str) -> None:
    with pytest.raises(HandlerError, match="cannot name a handler"):
        handler(name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nobody.knows", r"run the cell.* has @handler\(.nobody\.knows.\)"),
        ("no_such_module_x:f", "cannot be imported: ModuleNotFoundError"),
        (f"{__name__}:missing", "has no function 'missing'"),
    ],
)
def test_a_name_that_leads_nowhere_says_what_to_do(name: str, message: str) -> None:
    with pytest.raises(HandlerError, match=message):
        lookup(name)


def test_the_notebook_stands_for_main(monkeypatch: pytest.MonkeyPatch) -> None:
    main = sys.modules["__main__"]
    fn = _function("def f(): return 1", module="__main__")
    monkeypatch.setattr(main, "__vsc_ipynb_file__", "/data/my report.ipynb", raising=False)
    monkeypatch.setattr(main, "f", fn, raising=False)
    assert handler_name(fn) == "my report:f"
    assert lookup("my report:f") is fn
    assert handler_name(fn, namespace="etl") == "etl:f"


def test_a_re_run_cells_function_is_the_one_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    set_namespace("report")
    name = handler_name(_function("def f(): return 1", module="__main__"))
    second = _function("def f(): return 2", module="__main__")
    monkeypatch.setattr(sys.modules["__main__"], "f", second, raising=False)
    assert lookup(name) is second


def test_jupyters_variable_names_a_kernel_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "/data/report.ipynb")
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__file__", "/jobs/nightly.py", raising=False)
    monkeypatch.setattr(main, "__spec__", None)
    assert main_namespace() == "nightly"
    monkeypatch.delattr(main, "__file__")
    assert main_namespace() == "report"


def test_a_script_and_a_module_name_themselves(tmp_path: Path) -> None:
    script = tmp_path / "nightly.py"
    script.write_text(
        "from workbench.graph.handlers import handler_name\ndef f(): ...\nprint(handler_name(f))\n"
    )
    root = str(Path(__file__).parents[2])
    for command in ([str(script)], ["-m", "nightly"]):
        done = subprocess.run(
            [sys.executable, *command],
            env={"PYTHONPATH": f"{root}:{tmp_path}"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "nightly:f\n"


@pytest.mark.parametrize("namespace", ["", "a:b"])
def test_a_namespace_must_fit_into_names(namespace: str) -> None:
    with pytest.raises(HandlerError, match="without a colon"):
        set_namespace(namespace)


BASE = "def f(x, y=1):\n    s = {'a', 'b', 'c'}\n    return x in {'p', 'q'} or s"


@pytest.mark.parametrize(
    "source",
    [
        "\n\n# moved\n" + BASE,
        BASE.replace("    s =", "    # a comment\n    s ="),
        BASE.replace("(x, y=1)", "( x,  y = 1 )"),
    ],
)
def test_a_fingerprint_ignores_lines_and_comments(source: str) -> None:
    assert fingerprint(_function(source)) == fingerprint(_function(BASE))


@pytest.mark.parametrize(
    "source",
    [
        BASE.replace("y=1", "y=2"),
        BASE.replace("y=1", "y=True"),
        BASE.replace("'p'", "'r'"),
        BASE.replace("return x", "return y"),
        BASE.replace("s =", "t = len({1}); s ="),
    ],
)
def test_a_fingerprint_sees_code_constants_and_defaults(source: str) -> None:
    assert fingerprint(_function(source)) != fingerprint(_function(BASE))


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    program = (
        "from workbench.graph.handlers import fingerprint\n"
        f"scope = {{}}\nexec({BASE!r}, scope)\nprint(fingerprint(scope['f']))"
    )
    root = str(Path(__file__).parents[2])
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONPATH": root, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2", "3")
    }
    assert found == {fingerprint(_function(BASE))}
    assert len(found.pop()) == 12


def test_a_builtin_has_a_fingerprint() -> None:
    assert len(fingerprint(math.sqrt)) == 12


def test_frames_are_known_by_annotation() -> None:
    fn = _function(
        "from __future__ import annotations\n"
        "import pandas as pd, types; pl = types.SimpleNamespace(DataFrame=dict)\n"
        "def f(a: pd.DataFrame, b: pd.DataFrame | None, c: list[int], d: pl.DataFrame): ..."
    )
    assert dataframe_parameters(fn) == {"a", "b"}


def test_frames_are_known_by_class() -> None:
    fn = _function("def f(a, b, c, d): ...")
    fn.__annotations__ = {
        "a": pd.DataFrame,
        "b": Optional[pd.DataFrame],  # noqa: UP045
        "c": pd.Series,
        "return": pd.DataFrame,
    }
    assert dataframe_parameters(fn) == {"a", "b"}


def test_frames_are_known_where_pandas_is_imported_for_types_only() -> None:
    fn = _function(
        "from __future__ import annotations\ndef f(a: DataFrame, b: pd.DataFrame, c: int): ..."
    )
    assert dataframe_parameters(fn) == {"a", "b"}


def test_graphs_need_no_pandas() -> None:
    program = "import sys, workbench.graph; print('pandas' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"
