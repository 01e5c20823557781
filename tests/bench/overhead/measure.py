"""Measures the drawn sidecars, each twice, in turns with no proxy and with a reference hop at several rates."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from admc.cost.measurement import design
from admc.cost.measurement.bed import Bed, Load, Tools
from admc.cost.measurement.child import started
from admc.cost.measurement.design import SIZES
from admc.cost.measurement.layout import Arm, Layout
from admc.cost.measurement.network import NetworkError, isolate
from admc.cost.measurement.table import Channel
from admc.cost.profile_import.calm import calmest
from admc.cost.profiles.profile import Profile
from dsl.program import Protocol, Side
from emitters.envoy import Mode
from tests.bench.overhead.draw import Configuration, rates
from tests.bench.overhead.predict import Cost

HALVES = 2


class FailingError(Exception):
    """Requests through a sidecar, or past it, are not answered."""


class Settings(NamedTuple):
    number: int
    several: int
    turns: int
    """Of each half."""
    seconds: float
    """Of one slice."""
    together: int
    """Sidecars that run at the same time, that of the reference aside."""


USUAL = Settings(24, 8, 10, 1.2, 8)


class Slice(NamedTuple):
    """What was measured in one turn."""

    cost: Cost
    stolen: float
    """The part of the time of all cores that the host took away meanwhile."""


class Half(NamedTuple):
    """What was measured in one half, for a sidecar and for each reference beside it."""

    sidecar: Cost
    references: tuple[Cost, ...]


def references(profile: Profile) -> tuple[Configuration, ...]:
    """A bare http hop at the rates of the profile, its lowest and highest aside: one takes long to measure, and at the
    other a worker is next to saturated. A figure of a profile is off by chance, and one of several rates less so."""
    measured_at = rates(profile, Protocol.HTTP)
    return tuple(_reference(rate) for rate in measured_at[1:-1] or measured_at[:1])


def _reference(rate: float) -> Configuration:
    name = f"reference_{rate:g}".replace(".", "_")
    return Configuration(name, (Arm(name, "reference", Side.INGRESS, Protocol.HTTP, (), rate, SIZES[0]),))


def layout(configurations: Sequence[Configuration], mode: Mode, folder: Path) -> Layout:
    arms = tuple(arm for each in configurations for arm in each.hops)
    sizes = tuple(sorted({arm.size for arm in arms if arm.size is not None}))
    return Layout(arms, mode, sizes, folder / "tapped")


def measured(
    configurations: Sequence[Configuration],
    beside: Sequence[Configuration],
    tools: Tools,
    settings: Settings,
    progress: Callable[[str], None],
    note: Callable[[str], None],
) -> Mapping[str, tuple[Half, ...]]:
    """By name, each half, with the references `beside`; what cannot be measured is missing, and a note says why.

    Raises `admc.cost.measurement.child.FailedError`.
    """
    found: dict[str, list[Half]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="admc-overhead-") as folder,
        started(partial(_run, configurations, beside, tools, settings, Path(folder))) as messages,
    ):
        for subject, content in messages:
            if subject == "fact":
                name, (sidecar, *others) = content
                found.setdefault(name, []).append(Half(Cost(*sidecar), tuple(Cost(*each) for each in others)))
            elif subject == "note":
                note(content)
            elif subject == "progress":
                progress(content)
    return {name: tuple(halves) for name, halves in found.items() if len(halves) == HALVES}


def _run(
    configurations: Sequence[Configuration],
    beside: Sequence[Configuration],
    tools: Tools,
    settings: Settings,
    folder: Path,
    channel: Channel,
) -> None:
    try:
        isolate()
        mode = Mode.REDIRECT
    except NetworkError as error:
        mode = Mode.EXPLICIT
        channel.note(f"not redirected: {error}")
    for half in range(HALVES):
        for number, some in enumerate(_parts(configurations, settings.together)):
            channel.progress(f"half {half + 1}, sidecars {number * settings.together + 1} and next")
            place = folder / f"{half}-{number}"
            with Bed(layout((*some, *beside), mode, place), place, tools) as bed:
                _turns(bed, some, beside, settings, channel)


def _parts(items: Sequence[Configuration], size: int) -> Iterator[Sequence[Configuration]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]


def _turns(
    bed: Bed, some: Sequence[Configuration], beside: Sequence[Configuration], settings: Settings, channel: Channel
) -> None:
    costs: dict[str, list[Slice]] = {each.name: [] for each in (*some, *beside)}
    by_name = {each.name: each for each in some}
    failed: dict[str, str] = {}
    for turn in range(settings.turns):
        for at, name in enumerate(design.in_turn(list(by_name), turn)):
            for each in share(beside, at, len(some)):
                costs[each.name].append(cost(bed, each, settings.seconds / 2))
            try:
                costs[name].append(cost(bed, by_name[name], settings.seconds))
            except FailingError as error:
                failed[name] = str(error)
    others = [_middle(costs[each.name]) for each in beside]
    for name, configuration in by_name.items():
        if name in failed:
            channel.note(f"NOT MEASURED, since requests fail: {configuration}: {failed[name]}")
        else:
            channel.fact(name, [_middle(costs[name]), *others])


def share(beside: Sequence[Configuration], at: int, of: int) -> Sequence[Configuration]:
    """The references before the sidecar `at`, so that each has one slice a turn, all over the turn."""
    return beside[-(-at * len(beside) // of) : -(-(at + 1) * len(beside) // of)]


def _middle(slices: Sequence[Slice]) -> list[float]:
    calm = calmest(slices, lambda each: each.stolen)
    return [median(each.cost[quantity] for each in calm) for quantity in range(2)]


def cost(bed: Bed, configuration: Configuration, seconds: float) -> Slice:
    """What a sidecar costs. At low rates, requests through it and past it alternate in one slice, as those of bare hops
    do in `admc profile measure`; at higher rates they are in two slices beside each other."""
    slowest = min(hop.rate or 0.0 for hop in configuration.hops)
    warm = max(0.1, min(0.4, 1 / slowest))
    pods = [configuration.pod]
    through, past = (
        [Load(to(hop), hop.rate or 0.0, hop.size or 0) for hop in configuration.hops]
        for to in (bed.layout.through, bed.layout.past)
    )
    if configuration.rate <= design.ALTERNATE_RATE:
        both = bed.measure([*through, *past], max(seconds, min(3.0, 24 / slowest)), warm, pods)
        cpu, stolen = both.cpu[configuration.pod], both.stolen
        ours, none = both.loads[: len(through)], both.loads[len(through) :]
    else:
        first = bed.measure(through, seconds, warm, pods)
        second = bed.measure(past, seconds / 2, warm, [])
        cpu, stolen = first.cpu[configuration.pod], max(first.stolen, second.stolen)
        ours, none = first.loads, second.loads
    bed.forget_taps()
    failed = [each.error for each in (*ours, *none) if each.failed]
    if failed:
        raise FailingError(failed[0])
    requests = sum(each.sent for each in ours)
    added = sum(
        (one.latency - other.latency) * (hop.rate or 0.0)
        for one, other, hop in zip(ours, none, configuration.hops, strict=True)
    )
    return Slice(Cost(cpu / requests * 1e6, added / configuration.rate), stolen)
