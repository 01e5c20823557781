"""Makes a request from each of the most frequent shapes of traces, with the steps of a `request` statement.

    files -> [imported] -> Import: at most `MAX_REQUESTS` requests, each with its rate and the work of each step

Calls that follow each other become steps in the order of names, not of time, and equal ones become one step with
`times`. Nothing else is merged: traces that differ in one call
have different shapes, and become different requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from admc.cost.traces.directory import Directory, Named
from admc.cost.traces.drops import Drops, Reason
from admc.cost.traces.forest import Linked, forest
from admc.cost.traces.names import TraceNames
from admc.cost.traces.read import evaluated
from admc.cost.traces.report import Taken, nothing_left, summed_up
from admc.cost.traces.shapes import Sampled, Shape, merged, shapes_of
from dsl.program import Program
from dsl.requests import MAX_STEPS, MAX_TIMES
from dsl.syntax.tokens import MAX_WORD

MAX_REQUESTS: Final = 1000
MAX_NESTING: Final = 60
"""Deepest braces of a request; the language allows 64."""
_Key = tuple[Any, ...]


@dataclass(slots=True)
class Step:
    """A call, and the calls that its callee makes."""

    call: int
    work: int
    """Nanoseconds of work of the callee: the sum over all traces, and over all calls that became this step."""
    rank: int
    """The position of the call among all calls in the order of names."""
    made: int = 1
    """Calls of one trace that became this step."""
    times: int = 1
    sequence: list[Step] = field(default_factory=list)
    together: list[list[Step]] = field(default_factory=list)
    asynchronous: list[Step] = field(default_factory=list)
    key: _Key = ()
    """Steps that make the same calls have equal keys."""


class ImportedRequest(NamedTuple):
    name: str
    root: Step
    traces: int
    """How many traces have its shape."""
    rate: float | None


class Import(NamedTuple):
    requests: tuple[ImportedRequest, ...]
    calls: Sequence[Named]
    taken: Taken
    names: tuple[str, ...]


def imported(
    program: Program | None,
    files: Sequence[Path],
    sampled: float,
    names: TraceNames | None = None,
    *,
    partial_traces: bool = False,
) -> Import:
    """Raises `CommandError` (exit 1) if a file cannot be read, or no trace is left."""
    drops = Drops()
    directory = Directory(program, drops, names, partial_traces=partial_traces)

    def work(linked: Linked) -> Sampled:
        return shapes_of(forest(linked), directory.marks())

    kept, whole = merged(evaluated(files, directory, drops, work, partial_traces=partial_traces))
    if whole is None:
        raise nothing_left(drops, directory)
    trees = whole.trees
    order = sorted(range(len(directory.calls)), key=lambda code: _name(directory.calls[code]))
    ranks = {code: rank for rank, code in enumerate(order)}
    shapes = []
    for shape in kept.most_frequent(MAX_REQUESTS):
        root = _root(shape, ranks)
        if _nesting(root) > MAX_NESTING or _steps(root) > MAX_STEPS:
            kept.lost_trees += shape.count
            kept.lost_calls += shape.count * len(shape.calls)
        else:
            shapes.append((shape.count, root))
    if kept.lost_trees:
        drops.add(Reason.RARE, kept.lost_trees, kept.lost_calls, lambda: None)
    if not shapes:
        raise nothing_left(drops, directory)
    taken = summed_up(trees, whole.calls, whole.first, whole.last, drops, sampled)
    trace_rate = None if taken.rate is None else taken.rate / trees
    requests = _named(shapes, directory, trace_rate)
    number = trees - kept.lost_trees
    left = taken._replace(
        trees=number, calls=whole.calls - kept.lost_calls, rate=None if trace_rate is None else trace_rate * number
    )
    return Import(requests, directory.calls, left, directory.names)


def _named(
    shapes: Sequence[tuple[int, Step]], directory: Directory, trace_rate: float | None
) -> tuple[ImportedRequest, ...]:
    """The requests, the most frequent first. Each is named after the service that it calls first."""
    names = _names([directory.calls[root.call].destination for _, root in shapes])
    return tuple(
        ImportedRequest(name, root, count, None if trace_rate is None else trace_rate * count)
        for name, (count, root) in zip(names, shapes, strict=True)
    )


def _names(callees: Sequence[str]) -> list[str]:
    """A different name for each request, by its callee. A number is skipped if a callee has this name already.

    >>> _names(["web", "web_1", "web"])
    ['web_2', 'web_1', 'web_3']
    """
    times = Counter(callees)
    used = {callee for callee in callees if times[callee] == 1}
    seen: Counter[str] = Counter()
    names = []
    for callee in callees:
        name = callee
        while times[callee] > 1 and (name == callee or name in used):
            seen[callee] += 1
            number = f"_{seen[callee]}"
            name = callee[: MAX_WORD - len(number)] + number
        used.add(name)
        names.append(name)
    return names


def _name(call: Named) -> tuple[str, str, str]:
    return call.source, call.destination, call.port or ""


def _root(shape: Shape, ranks: Mapping[int, int]) -> Step:
    """The tree of a shape, in the order of names. Children come after parents, so the last call is finished first."""
    steps = [Step(call, work, ranks[call]) for call, work in zip(shape.calls, shape.work, strict=True)]
    groups: list[dict[int, list[Step]]] = [{} for _ in steps]
    for at in range(len(steps) - 1, -1, -1):
        _finish(steps[at], groups[at])
        if at:
            groups[shape.parents[at]].setdefault(shape.groups[at], []).append(steps[at])
    return steps[0]


def _finish(step: Step, groups: dict[int, list[Step]]) -> None:
    alone: list[Step] = []
    for number, members in groups.items():
        if number < 0:
            step.asynchronous = _sorted(members)
        elif len(members) > 1:
            step.together.append(_sorted(members))
        else:
            alone += members
    step.together.sort(key=lambda members: [member.key for member in members])
    step.sequence = _repeated(_sorted(alone))
    step.key = (
        step.rank,
        tuple((inner.key, inner.times) for inner in step.sequence),
        tuple(tuple(member.key for member in members) for members in step.together),
        tuple(inner.key for inner in step.asynchronous),
    )


def _sorted(steps: list[Step]) -> list[Step]:
    return sorted(steps, key=lambda step: (step.key, step.work))


def _repeated(steps: list[Step]) -> list[Step]:
    joined: list[Step] = []
    for step in steps:
        last = joined[-1] if joined else None
        if last is not None and last.key == step.key and last.times < MAX_TIMES:
            last.times += 1
            _merge(last, step)
        else:
            joined.append(step)
    return joined


def _merge(one: Step, other: Step) -> None:
    """Add the work of `other` to `one`, which makes the same calls."""
    one.work += other.work
    one.made += other.made
    for mine, others in (
        (one.sequence, other.sequence),
        (one.asynchronous, other.asynchronous),
        *zip(one.together, other.together, strict=True),
    ):
        for left, right in zip(mine, others, strict=True):
            _merge(left, right)


def _inner(step: Step) -> list[Step]:
    return [*step.sequence, *(member for members in step.together for member in members), *step.asynchronous]


def _nesting(root: Step) -> int:
    """How deep the braces of the statement are nested."""
    deepest, level = 0, [(root, 1)]
    while level:
        step, depth = level.pop()
        deepest = max(deepest, depth)
        together = {id(member) for members in step.together for member in members}
        level += [(inner, depth + 1 + (id(inner) in together)) for inner in _inner(step)]
    return deepest


def _steps(root: Step) -> int:
    count, waiting = 0, [root]
    while waiting:
        step = waiting.pop()
        count += 1
        waiting += _inner(step)
    return count
