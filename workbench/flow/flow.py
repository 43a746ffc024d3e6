"""`Flow`: steps, what they depend on and when they run, put together into one graph.

A flow stores nothing: `graph()` is an ordinary graph with a FLOW at its root, and a `Flow` may stand
wherever a step may. What FLOW and MAP mean is the engine's business.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar, overload

from workbench.errors import GraphError
from workbench.flow.functions import StepRef, element_name, listed, named_by, parameters_of
from workbench.flow.options import Options
from workbench.graph.build import Step, as_node
from workbench.graph.dag import cycle, leaf_fault, slug_fault
from workbench.graph.handlers import handler_name
from workbench.graph.node import Node
from workbench.graph.shapes import did_you_mean
from workbench.graph.substitute import REF_KEY
from workbench.graph.values import encode

__all__ = ["Flow"]

F = TypeVar("F", bound=Callable[..., Any])
Duration = float | str | timedelta

_CONTEXT = "ctx"
_INPUT = "flow_input"


@dataclass(frozen=True)
class _Step:
    """A step as it was defined. `place` tells a function that is defined anew from another one."""

    slug: str
    place: str | None
    node: Node
    after: tuple[str, ...]
    options: Options
    maps: bool = False
    over: str | None = None


class Flow:
    """A named DAG of steps.

    A step is a function; its parameters name the steps whose outputs it gets. `flow_input` is the
    run's input, `ctx` the attempt's context. Running a cell again replaces its steps.

        shop = wb.Flow("shop", max_attempts=3)

        @shop.step
        def pages(flow_input): ...

        @shop.map(over="pages")
        def price(page): ...

        @shop.step
        def total(price): ...

        run = bench.start(shop, input={"day": "2026-12-01"})

    Parameters
    ----------
    slug:
        1 to 128 letters, digits and underscores, not starting with a digit.
    max_attempts, base_delay, max_backoff:
        How often a step is tried, and the delays in between; a step's own say more.
    timeout:
        The longest that one attempt of a step may take; None sets no limit.
    start_delay:
        How long a step waits from when it could run.

    Durations are seconds, timedeltas or text such as "10 minutes".

    Raises
    ------
    GraphError
        The slug or an option was refused.
    """

    def __init__(
        self,
        slug: str,
        *,
        max_attempts: int = 3,
        base_delay: Duration = 1,
        max_backoff: Duration | None = None,
        timeout: Duration | None = None,
        start_delay: Duration = 0,
    ) -> None:
        if fault := slug_fault(slug):
            raise GraphError(f"Flow: {fault}")
        self.slug = slug
        given = {
            "max_attempts": max_attempts,
            "base_delay": base_delay,
            "max_backoff": max_backoff,
            "timeout": timeout,
            "start_delay": start_delay,
        }
        self._options = Options.of(f"Flow {slug!r}", given)
        self._steps: dict[str, _Step] = {}

    # Defining.

    @overload
    def step(self, function: F, /) -> F: ...

    @overload
    def step(
        self, /, *, after: Iterable[StepRef] | StepRef = (), **options: Any
    ) -> Callable[[F], F]: ...

    def step(
        self,
        function: F | None = None,
        /,
        *,
        after: Iterable[StepRef] | StepRef = (),
        **options: Any,
    ) -> F | Callable[[F], F]:
        """Make a function a step; it is returned unchanged.

        Parameters
        ----------
        after:
            Steps that end before this one begins, besides those that its parameters name.
        if_, if_not:
            A JSON object that the outputs of its dependencies (`{dependency: output}`), or without
            any the run's input, must contain, or must not.
        if_skipped:
            A dependency that must have been skipped.
        when_unmet:
            What a condition that is not met does: `skip`, `skip-cascade` (and all that depends on
            it), or `fail`.
        when_exhausted:
            What spent attempts do: `fail`, `skip` or `skip-cascade`.
        max_attempts, base_delay, max_backoff, timeout, start_delay:
            As for the flow, for this step.

        Raises
        ------
        GraphError
            A dependency or an option was refused; the flow is as it was.
        HandlerError
            The function cannot be found again by name.
        """

        def define(fn: F) -> F:
            self._define(fn, after, options)
            return fn

        return define if function is None else define(function)

    @overload
    def map(self, function: F, /) -> F: ...

    @overload
    def map(
        self,
        /,
        *,
        over: StepRef | None = None,
        after: Iterable[StepRef] | StepRef = (),
        **options: Any,
    ) -> Callable[[F], F]: ...

    def map(
        self,
        function: F | None = None,
        /,
        *,
        over: StepRef | None = None,
        after: Iterable[StepRef] | StepRef = (),
        **options: Any,
    ) -> F | Callable[[F], F]:
        """Make a function a step that runs once for each element of a list; it is returned unchanged.

        Its first parameter is the element, whatever its name. The output is the list of what the
        calls return, in the order of the elements.

        Parameters
        ----------
        over:
            The step whose output it goes over; None goes over the run's input.
        return_exceptions:
            In place of what a failed call would have returned the list has its error; else the
            first to fail decides.
        after, options:
            As for `step`; attempts are those of each element.

        Raises
        ------
        GraphError
            A dependency or an option was refused; the flow is as it was.
        HandlerError
            The function cannot be found again by name.
        """

        def define(fn: F) -> F:
            self._define(fn, after, options, maps=True, over=over)
            return fn

        return define if function is None else define(function)

    def add(
        self, slug: str, node: Step, after: Iterable[StepRef] | StepRef = (), **options: Any
    ) -> None:
        """Add a step that is a leaf of a graph: `sql(…)`, `http(…)`, a wait.

        It sees the outputs of its dependencies as `$name`, and the run's input as `$input`.

        Parameters
        ----------
        slug:
            What the step is called.
        node:
            A leaf, or SQL text.
        after:
            The steps that it depends on, by function or name.
        options:
            As for `step`.

        Raises
        ------
        GraphError
            The slug, a dependency or an option was refused; the flow is as it was.
        """
        slugs = self._resolve(slug, after)
        self._put(_Step(slug, None, as_node(node), slugs, self._read(slug, options)))

    def _define(
        self,
        fn: Callable[..., Any],
        after: Iterable[StepRef] | StepRef,
        options: Mapping[str, Any],
        *,
        maps: bool = False,
        over: StepRef | None = None,
    ) -> None:
        name = handler_name(fn)
        slug = fn.__name__
        source = None if over is None else self._source(slug, over)
        parameters = parameters_of(fn)
        given: dict[str, Any] = {}
        data: list[str] = []
        element = parameters.pop(0).name if maps and parameters else None
        if maps and element is None:
            raise GraphError(
                f"map {slug!r} takes no parameter; its first one is the element: def {slug}(item)"
            )
        if source is not None:
            data.append(source)
        for parameter in parameters:
            if parameter.name == _INPUT:
                given[_INPUT] = {REF_KEY: "input"}
            elif parameter.name != _CONTEXT and self._is_dependency(slug, parameter):
                data.append(parameter.name)
                given[parameter.name] = {REF_KEY: parameter.name}
        slugs = self._resolve(slug, [*data, *listed(after)])
        if element is not None:
            given = {element: {REF_KEY: element_name(slugs)}, **given}
        node = Node("PYTHON", query=encode({"handler": name, "input": given}))
        place = f"{fn.__module__}:{fn.__qualname__}"
        read = self._read(slug, options, maps=maps)
        self._put(_Step(slug, place, node, slugs, read, maps, source))

    def _source(self, slug: str, over: StepRef) -> str:
        """The step that a map goes over."""
        if not (isinstance(over, str) or callable(over)):
            raise GraphError(f"map {slug!r} goes over one step, not {over!r}; join them in a step")
        if over in ("input", _INPUT):
            raise GraphError(f"map {slug!r}: leave over= out to go over the run's input")
        return self._resolve(slug, [over])[0]

    def _is_dependency(self, slug: str, parameter: inspect.Parameter) -> bool:
        """Whether a parameter names a step; one that has a default need not."""
        if parameter.name in self._steps or parameter.name == slug:
            return True
        if parameter.default is not inspect.Parameter.empty:
            return False
        raise self._unknown(slug, parameter.name)

    def _resolve(self, slug: str, steps: Iterable[StepRef] | StepRef) -> tuple[str, ...]:
        """The slugs of steps that this one depends on."""
        found: list[str] = []
        for step in listed(steps):
            name, place = named_by(step)
            if name == slug:
                raise GraphError(f"step {slug!r} depends on itself")
            known = self._steps.get(name)
            if known is None or place not in (None, known.place):
                raise self._unknown(slug, place or name)
            if name in found:
                raise GraphError(f"step {slug!r} depends on {name!r} twice; name it once")
            found.append(name)
        return tuple(found)

    def _unknown(self, slug: str, name: str) -> GraphError:
        return GraphError(
            f"step {slug!r} depends on {name!r}, which is no step of flow {self.slug!r}."
            f"{did_you_mean(name, self._steps)} Define it first; the flow has: "
            f"{', '.join(self._steps) or 'no step yet'}"
        )

    def _read(self, slug: str, options: Mapping[str, Any], *, maps: bool = False) -> Options:
        return Options.of(f"step {slug!r}", options, is_step=True, is_map=maps)

    def _put(self, step: _Step) -> None:
        """Take a step in, in place of what it defines anew."""
        if fault := slug_fault(step.slug):
            raise GraphError(f"step: {fault}")
        known = self._steps.get(step.slug)
        if known is not None and known.place != step.place:
            raise GraphError(
                f"step {step.slug!r} of flow {self.slug!r} is already {known.place or 'added'}; give "
                f"{step.place or 'this one'} another name"
            )
        if step.options.if_skipped is not None and step.options.if_skipped not in step.after:
            raise GraphError(
                f"step {step.slug!r}: if_skipped={step.options.if_skipped!r} is none of the steps "
                "that it depends on; add it to after=[…]"
            )
        if (fault := leaf_fault(step.node)) is not None:
            raise GraphError(f"step {step.slug!r}: {fault}")
        if (useless := step.options.without_use(step.node)) is not None:
            raise GraphError(
                f"step {step.slug!r}: {useless} does not apply to {step.node.node_type}; leave it out"
            )
        if step.maps and not step.after and step.options.if_ is not None:
            raise GraphError(
                f"map {step.slug!r} goes over the run's input, a list, which never contains the "
                "object in if_; put the condition on a step before it"
            )
        steps = {**self._steps, step.slug: step}
        if around := cycle({slug: each.after for slug, each in steps.items()}):
            raise GraphError(f"steps depend on each other in a circle: {' -> '.join(around)}")
        self._steps = steps

    # What it stands for.

    def graph(self) -> Node:
        """The flow as a graph, with its steps as they are now.

        Raises
        ------
        GraphError
            A step that was added is no leaf.
        """
        steps = [self._config(step) for step in self._steps.values()]
        children = tuple(self._child(step) for step in self._steps.values())
        query = encode({"slug": self.slug, "steps": steps})
        return Node("FLOW", extra=children, query=query, retry=self._options.retry)

    def __workbench_node__(self) -> Node:
        return self.graph()

    def _config(self, step: _Step) -> dict[str, Any]:
        after = {"after": list(step.after)} if step.after else {}
        return {"step": step.slug, **after, **step.options.conditions()}

    def _child(self, step: _Step) -> Node:
        node = step.node
        if step.maps:
            config: dict[str, Any] = {
                "over": step.over or "input",
                "as": element_name(step.after),
            }
            if step.options.return_exceptions:
                config["return_exceptions"] = True
            node = Node("MAP", left=node, query=encode(config))
        node = step.options.limit(node, self._options)
        retry = {**(node.retry or {}), **(step.options.retry or {})}
        return replace(node, result_name=step.slug, retry=retry or None)

    def named(self, name: str) -> Node:
        """The flow as a step with a name for its result, as `Node.named` does."""
        return self.graph().named(name)

    def __rshift__(self, other: Step) -> Node:
        return self.graph() >> other

    def __rrshift__(self, other: Step) -> Node:
        return as_node(other) >> self.graph()

    def __and__(self, other: Step) -> Node:
        return self.graph() & other

    def __rand__(self, other: Step) -> Node:
        return as_node(other) & self.graph()

    def __or__(self, other: Step) -> Node:
        return self.graph() | other

    def __ror__(self, other: Step) -> Node:
        return as_node(other) | self.graph()

    def __iter__(self) -> Iterator[str]:
        """The slugs of its steps, in the order in which they were defined."""
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<Flow {self.slug}: {', '.join(self._steps) or 'no steps'}>"

    def __str__(self) -> str:
        return str(self.graph())

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, Any]:
        return self.graph()._repr_mimebundle_(include, exclude)
