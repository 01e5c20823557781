"""Computes the latency and the CPU that ADMs add to each tree of the traces, and reports percentiles of all trees.

program, placement, profile, files -> [trace_report] -> TraceReport
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.terminal import counted
from admc.cost.model.estimate import estimate
from admc.cost.model.layout import Layout, of_full_mesh, of_placement
from admc.cost.model.prices import Prices
from admc.cost.profiles.amounts import NANO, whole
from admc.cost.profiles.profile import Profile
from admc.cost.requests.calls import call_costs
from admc.cost.traces.directory import NAMELESS, Directory
from admc.cost.traces.drops import NOTES, TEXTS, Dropped, Drops, Note, Reason
from admc.cost.traces.evaluate import longest_paths, sums
from admc.cost.traces.forest import Flags, Ints, Linked, forest
from admc.cost.traces.names import TraceNames
from admc.cost.traces.read import evaluated
from dsl.diagnostics.diagnostic import Diagnostic, Severity, did_you_mean
from dsl.program import Program
from dsl.words import few
from solver.placement import Placement

PERCENTILES: Final = (50, 90, 99)
SHOWN: Final = 4
"""Most names in a message."""
MAX_COST: Final = 10_000 * NANO
"""Most nanoseconds that ADMs may add to one call: the sum over the calls of a trace then fits into 64 bits."""


class Distribution(NamedTuple):
    """Nanoseconds over all trees. The percentile p is the smallest value that at least p percent do not exceed."""

    percentiles: tuple[int, ...]
    """Those of `PERCENTILES`."""
    highest: int
    mean: float
    at_least: bool
    """Whether a cost is unknown and left out, so that the figures are lower bounds."""


class Added(NamedTuple):
    """What the ADMs of one layout add."""

    latency: Distribution
    cpu: Distribution
    """CPU time of a request."""
    cores: float | None
    """Nano-cores that ADMs take for the requests, without idle sidecars; None if the traces have no time span."""


class Taken(NamedTuple):
    """What was taken from the files, and what was left out."""

    trees: int
    calls: int
    span: int
    """Nanoseconds from the start of the first tree to that of the last."""
    rate: float | None
    """Requests per second, by the span and the sampled share; None without a span."""
    dropped: tuple[Dropped, ...]
    duplicates: int
    malformed: int
    first_malformed: str
    notes: tuple[tuple[Note, int], ...] = ()


class TraceReport(NamedTuple):
    taken: Taken
    plan: Added
    full_mesh: Added
    """A sidecar at every service that can host one."""
    names: tuple[str, ...]
    """Services and externals of the program."""


class _Costs(NamedTuple):
    """Latency and CPU that a layout adds to one request of each declared call, in nanoseconds."""

    latency: Ints
    cpu: Ints
    latency_unknown: Flags
    cpu_unknown: Flags


class _Part(NamedTuple):
    plan_latency: Ints
    full_latency: Ints
    plan_cpu: Ints
    full_cpu: Ints
    counts: Ints
    """How often each call of the program is in the part."""
    first: int
    last: int
    """When the first and the last tree begin, in nanoseconds."""


def trace_report(
    program: Program,
    placement: Placement,
    profile: Profile,
    files: Sequence[Path],
    sampled: float,
    names: TraceNames | None = None,
    *,
    partial_traces: bool = False,
) -> TraceReport:
    """Raises `CommandError` (exit 1) if a file cannot be read, no trace is left, or ADMs add more than `MAX_COST` to a
    call."""
    drops = Drops()
    directory = Directory(program, drops, names, partial_traces=partial_traces)
    plan = _costs(program, of_placement(program, placement), profile)
    full = _costs(program, of_full_mesh(program, placement), profile)
    nothing = np.zeros(len(program.calls), np.int64)

    def work(linked: Linked) -> _Part:
        trees = forest(linked)
        without = longest_paths(trees, nothing)
        starts = linked.start[trees.roots] * linked.tick
        return _Part(
            longest_paths(trees, plan.latency) - without,
            longest_paths(trees, full.latency) - without,
            sums(trees, plan.cpu),
            sums(trees, full.cpu),
            np.bincount(linked.call, minlength=len(nothing)).astype(np.int64),
            int(starts.min()),
            int(starts.max()),
        )

    parts = list(evaluated(files, directory, drops, work, partial_traces=partial_traces))
    if not parts:
        raise nothing_left(drops, directory)
    return _report(parts, plan, full, drops, directory, sampled)


def _costs(program: Program, layout: Layout, profile: Profile) -> _Costs:
    costs = call_costs(program, layout, estimate(program, layout, profile), Prices(profile), range(len(program.calls)))
    rows = [costs[index] for index in range(len(program.calls))]
    latency, cpu = [row.latency.value for row in rows], [whole(row.cpu, NANO).value for row in rows]
    for call, *added in zip(program.calls, latency, cpu, strict=True):
        if max(added) > MAX_COST:
            raise _too_expensive(f"{call.source} -> {call.destination}", profile)
    return _Costs(
        np.array(latency, np.int64),
        np.array(cpu, np.int64),
        np.array([row.latency.at_least for row in rows], np.bool_),
        np.array([row.cpu_at_least for row in rows], np.bool_),
    )


def _too_expensive(call: str, profile: Profile) -> CommandError:
    return wrong_usage(
        "ADM862",
        f"by the profile `{profile.name}`, ADMs add more than {MAX_COST // NANO:,} s to one call `{call}`",
        cause="sums over the calls of a trace would have more than 64 bits",
        hint="look at the figures of the profile (`admc profile show`), and at the size of the call",
    )


def _report(
    parts: Sequence[_Part], plan: _Costs, full: _Costs, drops: Drops, directory: Directory, sampled: float
) -> TraceReport:
    counts = sum((part.counts for part in parts[1:]), parts[0].counts)
    trees = sum(len(part.plan_latency) for part in parts)
    taken = summed_up(
        trees, int(counts.sum()), min(part.first for part in parts), max(part.last for part in parts), drops, sampled
    )
    used = np.flatnonzero(counts)

    def added(latency: Ints, cpu: Ints, costs: _Costs) -> Added:
        spent = _distribution(cpu, bool(costs.cpu_unknown[used].any()))
        return Added(
            _distribution(latency, bool(costs.latency_unknown[used].any())),
            spent,
            None if taken.rate is None else spent.mean * taken.rate,
        )

    return TraceReport(
        taken,
        added(_joined(part.plan_latency for part in parts), _joined(part.plan_cpu for part in parts), plan),
        added(_joined(part.full_latency for part in parts), _joined(part.full_cpu for part in parts), full),
        directory.names,
    )


def summed_up(trees: int, calls: int, first: int, last: int, drops: Drops, sampled: float) -> Taken:
    """All that was taken. For the rate, `n` trees have `n - 1` intervals between their starts."""
    span = last - first
    rate = (trees - 1) * 10**9 / span / sampled if span else None
    whole = (drops.all(), drops.duplicates, drops.malformed, drops.first_malformed, drops.notes())
    return Taken(trees, calls, span, rate, *whole)


def _joined(parts: Iterable[Ints]) -> Ints:
    return np.concatenate(list(parts))


def _distribution(values: Ints, at_least: bool) -> Distribution:
    ranked = np.sort(values)
    number = len(ranked)
    return Distribution(
        tuple(int(ranked[-(-number * percent // 100) - 1]) for percent in PERCENTILES),
        int(ranked[-1]),
        _sum(ranked) / number,
        at_least,
    )


def _sum(values: Ints) -> int:
    """The exact sum. It may have more than 64 bits, so the halves of the values are summed separately."""
    half = 1 << 32
    return int((values // half).sum()) * half + int((values % half).sum())


def nothing_left(drops: Drops, directory: Directory) -> CommandError:
    """The error that no trace is left, followed by an error for each reason."""
    errors = [_diagnostic(dropped, directory.names) for dropped in drops.all()]
    unusable = counted(drops.malformed, "row or span", "rows or spans")
    skipped = f"{unusable} cannot be used; the first is {drops.first_malformed}"
    hint = "docs/traces.md says what of a trace is needed"
    causes = [NOTES[note][0].format(counted(count, *NOTES[note][1:])) for note, count in drops.notes()]
    causes += [skipped] if drops.malformed else []
    cause = "; ".join(causes) or (None if errors else "the files have no call")
    return CommandError(
        Exit.INPUT, [Diagnostic("ADM882", Severity.ERROR, "no trace is left", None, cause=cause, hint=hint), *errors]
    )


def _diagnostic(dropped: Dropped, known: Sequence[str]) -> Diagnostic:
    text = TEXTS[dropped.reason]
    return Diagnostic(
        text.code,
        Severity.ERROR,
        f"{where(dropped)}: {text.message}",
        None,
        names_of(dropped),
        suggestion(dropped, known),
    )


def where(dropped: Dropped) -> str:
    place = dropped.first
    if place is None:
        return f"{dropped.trees:,} traces"
    return f"{place.what} {place.number} of `{place.file}` (trace `{place.trace}`)"


def names_of(dropped: Dropped) -> str | None:
    """The unknown names, or the undeclared or unclear calls, as messages list them; None without any."""
    if not dropped.names:
        return None
    return few([f"`{name[:100]}`" for name in dropped.names], SHOWN)


def suggestion(dropped: Dropped, known: Sequence[str]) -> str:
    """The name that was probably meant; otherwise a hint what to do."""
    if dropped.reason is Reason.UNKNOWN_SERVICE and dropped.names:
        if dropped.names[0] == NAMELESS:
            return "a span needs the name of its service, and that of a client without a callee's span `peer.service`"
        meant = did_you_mean(dropped.names[0], known)
        if meant:
            return meant
    return TEXTS[dropped.reason].hint
