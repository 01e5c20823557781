"""Hotel reservation, compiled and full, as suite `cost` measures it, beside the prediction of the same profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

import dsl
from admc.cost.model.coefficients import coefficients
from admc.cost.model.estimate import estimate
from admc.cost.model.layout import of_full_mesh, of_placement
from admc.cost.model.overhead import Overhead
from dsl.program import Side
from solver.place import place
from solver.placement import Hop as SolverHop
from solver.rules.options import decision_points
from tests.bench.cost.arm import Load, Subject, run
from tests.bench.cost.figures import Window
from tests.bench.cost.schedule import schedule
from tests.bench.cost.suite import HOTEL, LOAD, textbook
from tests.bench.cost.walk import ENTRY, PAGES, PLAIN_BYTES, Visit
from tests.bench.overhead.measure import HALVES
from tests.bench.overhead.predict import Cost
from tests.testbed.mesh import Mode

if TYPE_CHECKING:
    from admc.cost.profiles.profile import Profile
    from dsl.program import Program
    from solver.placement import Placement


UNUSED = 0.001
"""The rate of a call that the load does not lead to: a model has no rate of zero."""


class Hotel(NamedTuple):
    """`measured` has each half. `at_least`: the profile or the program lacks something of the prediction."""

    mode: Mode
    measured: tuple[Cost, ...]
    predicted: Cost
    at_least: bool
    bound: float | None
    """The solver's coefficients of the plan, through the CPU that the full model predicts; None for a full mesh."""


def hotel(
    profile: Profile, app: Path, folder: Path, progress: Callable[[str], None], load: Load = LOAD
) -> tuple[Hotel, ...]:
    """Raises `CostError`, `tests.testbed.mesh.MeshError`."""
    program = dsl.load(HOTEL)
    meshes: dict[Mode, tuple[Program, Placement | None]] = {
        Mode.NONE: (program, None),
        Mode.FULL: textbook(program),
        Mode.COMPILED: (program, place(program)),
    }
    databases = frozenset(name for name, service in program.services.items() if not service.hosts_adm)
    windows: dict[Mode, list[Window]] = {mode: [] for mode in meshes}
    for half in range(HALVES):
        for mode, (wide, placement) in meshes.items():
            progress(f"hotel reservation, {mode}, half {half + 1}")
            windows[mode].append(
                run(Subject(wide, placement, mode, databases), app, load, folder / f"hotel-{half}-{mode}")
            )
    return tuple(_compared(mode, *meshes[mode], windows, load, profile) for mode in (Mode.COMPILED, Mode.FULL))


def _compared(
    mode: Mode,
    program: Program,
    placement: Placement | None,
    windows: Mapping[Mode, Sequence[Window]],
    load: Load,
    profile: Profile,
) -> Hotel:
    assert placement is not None
    loaded = with_rates(program, load.rate)
    shape = of_full_mesh(loaded, placement) if mode is Mode.FULL else of_placement(loaded, placement)
    found = estimate(loaded, shape, profile)
    none, ours = windows[Mode.NONE], windows[mode]
    measured = tuple(
        Cost(each.each(each.proxies.cpu) * 1e3, (each.latency(0.5) - other.latency(0.5)) * 1e3)
        for each, other in zip(ours, none, strict=True)
    )
    predicted = Cost(found.totals.cpu.value / load.rate / 1e3, _added(loaded, found, none, load))
    at_least = found.totals.cpu.at_least or found.totals.latency.at_least
    above = None if mode is Mode.FULL else bound(loaded, placement, profile) / found.totals.cpu.value
    return Hotel(mode, measured, predicted, at_least, above)


def bound(program: Program, placement: Placement, profile: Profile) -> int:
    """Nano-cores of a plan by the solver's coefficients, each hop at its own rate."""
    costs = coefficients(program, decision_points(program), profile)
    total = 0
    for name, hops in of_placement(program, placement).items():
        total += costs.adm[name].cpu
        enforced: set[tuple[str, Side, str, str]] = set()
        for hop in hops:
            total += costs.hop[SolverHop(name, hop.side, hop.destination, hop.port.number)].cpu
            enforced |= {(name, hop.side, each.policy.name, hop.destination) for each in hop.enforced}
        total += sum(costs.enforcement[key].cpu for key in enforced if key in costs.enforcement)
    return total


def with_rates(program: Program, rate: float) -> Program:
    """With the rates that the load brings, and the sizes that the application sends."""
    rates: dict[tuple[str, str], float] = {ENTRY: rate}
    shares = sum(page.share for page in PAGES)
    for page in PAGES:
        _walk(ENTRY[1], page.steps, rate * page.share / shares, rates)
    calls = tuple(
        call._replace(rate=rates.get((call.source, call.destination), UNUSED), size=call.size or PLAIN_BYTES)
        for call in program.calls
    )
    return replace(program, calls=calls)


def _walk(source: str, visits: Sequence[Visit], rate: float, rates: dict[tuple[str, str], float]) -> None:
    for visit in visits:
        own = rate / visit.every
        rates[source, visit.service] = rates.get((source, visit.service), 0.0) + own
        _walk(visit.service, visit.steps, own, rates)


def _added(program: Program, found: Overhead, none: Sequence[Window], load: Load) -> float:
    """Microseconds at the median: each request without a mesh, and what its page's calls are predicted to add."""
    by_call: dict[tuple[str, str], float] = {}
    for adm in found.adms:
        for hop in adm.hops:
            for each in hop.calls:
                call = program.calls[each.call]
                added = 0.0 if each.latency is None else each.latency.value / 1e3
                by_call[call.source, call.destination] = by_call.get((call.source, call.destination), 0.0) + added
    pages = {page.path: by_call.get(ENTRY, 0.0) + _path(ENTRY[1], page.steps, by_call) for page in PAGES}
    planned = schedule(PAGES, load.rate, load.warm_up + load.window)
    shifts = []
    for window in none:
        paths = [each.path for each in planned[len(planned) - len(window.outcomes) :]]
        took = [outcome.took / 1e3 for outcome in window.outcomes]
        with_mesh = [value + pages[path] for value, path in zip(took, paths, strict=True)]
        shifts.append(median(with_mesh) - median(took))
    return median(shifts)


def _path(source: str, visits: Sequence[Visit], by_call: Mapping[tuple[str, str], float]) -> float:
    """The calls of one request, one after another; a call that few requests make is left out."""
    return sum(
        by_call.get((source, visit.service), 0.0) + _path(visit.service, visit.steps, by_call)
        for visit in visits
        if visit.every == 1
    )
