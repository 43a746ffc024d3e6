"""Where the cards of a DAG stand, and the lines between them: layers from top to bottom, few crossings.

The layout is Sugiyama's, by grandalf; here are only its sizes and what its lines become.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

__all__ = ["Box", "Layout", "Line", "lay_out"]

_BESIDE = 26  # pixels between cards of a layer
_BELOW = 40  # pixels between layers
_ROUNDS = 4  # of sweeps against crossings; more change little
_LANE = 10  # pixels that a line takes up beside cards


class Box(NamedTuple):
    """Where a card stands, in pixels."""

    left: float
    top: float
    width: float
    height: float

    @property
    def bottom(self) -> float:
        return self.top + self.height


class Line(NamedTuple):
    """What leads from one card to another: points to be joined smoothly, from top to bottom."""

    source: int
    target: int
    points: tuple[tuple[float, float], ...]


class Layout(NamedTuple):
    """A DAG as it is drawn, in pixels."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]


class _Card:
    """What grandalf wants to know of a vertex, and tells: `xy` is its middle."""

    def __init__(self, width: float, height: float) -> None:
        self.w, self.h = width, height
        self.xy = (0.0, 0.0)


class _Path:
    """What grandalf tells of an edge."""

    def __init__(self) -> None:
        self.points: list[tuple[float, float]] = []

    def setpath(self, points: list[tuple[float, float]]) -> None:
        self.points = points


def lay_out(sizes: Sequence[tuple[float, float]], edges: Iterable[tuple[int, int]]) -> Layout:
    """Place cards so that every edge leads downwards.

    Parameters:
        sizes: width and height of each card, in pixels.
        edges: pairs of cards by their numbers, the upper one first; without circles.
    """
    from grandalf.graphs import Edge, Graph, Vertex

    vertices = [Vertex(number) for number in range(len(sizes))]
    for vertex, size in zip(vertices, sizes, strict=True):
        vertex.view = _Card(*size)

    class NumberedEdge(Edge):  # type: ignore[misc]
        """grandalf keeps edges in a set: the same graph is always drawn the same."""

        def __hash__(self) -> int:
            return hash(self.data)

    between = []
    for number, (upper, lower) in enumerate(edges):
        between.append(NumberedEdge(vertices[upper], vertices[lower], data=number))
        between[-1].view = _Path()
    boxes: dict[int, Box] = {}
    lines: list[Line] = []
    right = 0.0
    for component in Graph(vertices, between).C:
        _place(component)
        cards = [vertex.view for vertex in component.sV]
        shift = right - min(card.xy[0] - card.w / 2 for card in cards)
        boxes |= {v.data: _box(v.view, shift) for v in component.sV}
        lines += [_line(edge, shift, _layers(cards)) for edge in component.sE]
        ends = [x for line in lines for x, _ in line.points]
        right = max([*ends, *(box.left + box.width for box in boxes.values())]) + _BESIDE
    height = max((box.bottom for box in boxes.values()), default=0.0)
    in_order = tuple(boxes[number] for number in range(len(sizes)))
    return Layout(max(right - _BESIDE, 0.0), height, in_order, tuple(lines))


def _place(component: Any) -> None:
    from grandalf.layouts import SugiyamaLayout

    layout = SugiyamaLayout(component)
    layout.xspace, layout.yspace = _BESIDE, _BELOW
    layout.dw = layout.dh = _LANE
    layout.init_all(roots=[vertex for vertex in component.sV if not vertex.e_in()])
    layout.draw(_ROUNDS)


def _box(card: _Card, shift: float) -> Box:
    x, y = card.xy
    return Box(x - card.w / 2 + shift, y - card.h / 2, card.w, card.h)


def _layers(cards: Iterable[_Card]) -> Mapping[float, float]:
    """The height of each layer, by its middle."""
    heights: dict[float, float] = defaultdict(float)
    for card in cards:
        heights[card.xy[1]] = max(heights[card.xy[1]], card.h)
    return heights


def _line(edge: Any, shift: float, layers: Mapping[float, float]) -> Line:
    """From below the upper card to above the lower one, straight through the layers between."""
    upper, lower = edge.v[0].view, edge.v[1].view
    points = [(upper.xy[0] + shift, upper.xy[1] + upper.h / 2)]
    for x, y in edge.view.points[1:-1]:
        half = layers.get(y, _LANE) / 2
        points += [(x + shift, y - half), (x + shift, y + half)]
    points.append((lower.xy[0] + shift, lower.xy[1] - lower.h / 2))
    return Line(edge.v[0].data, edge.v[1].data, tuple(points))
