"""One mode in one round: a fresh bed, proof that policies bite, a warm-up, and the window that is measured."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from admc.testbed.client import Request
from tests.bench.cost import usage
from tests.bench.cost.figures import Outcome, Use, Window
from tests.bench.cost.schedule import Planned, schedule
from tests.bench.cost.walk import ENTRY, PAGES, configurations, reached
from tests.testbed.mesh import Mesh, Mode

if TYPE_CHECKING:
    from dsl.program import Program
    from solver.placement import Placement
    from tests.testbed.mesh.control import Started

READY_SECONDS = 30.0
SEND_SECONDS = 1.0
"""From the start of the generator to its first request: it has a schedule to read."""
GIVEN_UP_SECONDS = 15.0
"""After the last request: the generator waits 10 s for an answer."""
MARKER = "x-content-type-options"
"""A header that the policy `no_sniffing` puts on every answer."""
PROBE = ("search", "user", "/user.User/CheckUser")
"""A call that the policy `user_readers` forbids."""


class CostError(Exception):
    """What ran is not what should have been measured, so there is no figure."""


class Load(NamedTuple):
    """Requests a second, and for how many seconds before and while it is measured."""

    rate: float
    warm_up: float
    window: float


class Subject(NamedTuple):
    """What is measured. `databases` are the services marked `no adm`, where only a full mesh has proxies."""

    program: Program
    placement: Placement | None
    mode: Mode
    databases: frozenset[str]


def run(subject: Subject, app: Path, load: Load, folder: Path) -> Window:
    """Raises `CostError`, `tests.testbed.mesh.MeshError`."""
    folder.mkdir(parents=True)
    planned = schedule(PAGES, load.rate, load.warm_up + load.window)
    with Mesh(subject.program, subject.placement, subject.mode, folder=folder, echoes=False) as mesh:
        started = _start(mesh, app)
        _refused(mesh)
        return _measure(mesh, subject.databases, started, app, load, planned)


def _start(mesh: Mesh, app: Path) -> list[Started]:
    """The application, one process a replica, each listening."""
    address = {name: mesh.address(name) for name in mesh.program.services}
    configured = configurations(mesh.program, address)
    started = []
    for place in mesh.layout.places:
        if place.party in configured:
            path = mesh.folder / f"{place.name.replace('/', '-')}.json"
            path.write_text(json.dumps(configured[place.party]))
            started.append(mesh.start(place.name, str(app), "serve", str(path)))
    for each in started:
        _await(each, partial(_is_ready, each), READY_SECONDS)
    return started


def _is_ready(process: Started) -> bool:
    return "ready" in process.out.read_text()


def _await(process: Started, done: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        code = process.code
        if code is not None and not done():
            raise CostError(f"the process in `{process.where}` ended with {code}: {_last_words(process)}")
        if time.monotonic() > deadline:
            raise CostError(f"the process in `{process.where}` is not done after {seconds:.0f} s")
        time.sleep(0.02)


def _last_words(process: Started) -> str:
    return process.log.read_text(errors="replace").strip()[-500:] or f"it wrote nothing to {process.log}"


def _refused(mesh: Mesh) -> None:
    """A policy bites where there is a mesh, and only there."""
    source, destination, path = PROBE
    reply = mesh.request(source, destination, Request(path=path))
    wanted = "OK" if mesh.mode is Mode.NONE else "PERMISSION_DENIED"
    if reply.label != wanted:
        raise CostError(f"{mesh.mode}: `{source} -> {destination}` was answered with {reply.label}, not {wanted}")


def _measure(
    mesh: Mesh,
    databases: frozenset[str],
    started: Sequence[Started],
    app: Path,
    load: Load,
    planned: Sequence[Planned],
) -> Window:
    source, entry = ENTRY
    port = mesh.port(source, entry).number
    config, lines, out = (mesh.folder / name for name in ("load.json", "schedule", "outcomes"))
    to = {"address": f"{mesh.address(entry)}:{port}", "authority": f"{entry}:{port}", "marker": MARKER}
    config.write_text(json.dumps(to))
    lines.write_text("".join(f"{each}\n" for each in planned))
    begin = time.time_ns() + round(SEND_SECONDS * 1e9)
    generator = mesh.start(source, str(app), "load", str(config), str(lines), str(begin), str(out))

    application = [each.pid for each in started]
    proxies = {name: proxy.pid for name, proxy in mesh.proxies.items()}
    pids = [*application, *proxies.values(), generator.pid]
    _sleep_until(begin / 1e9 + load.warm_up)
    before, machine_before, began = usage.cpu_each(pids), usage.machine(), time.monotonic()
    _sleep_until(begin / 1e9 + load.warm_up + load.window)
    after, machine_after, ended = usage.cpu_each(pids), usage.machine(), time.monotonic()

    def use(some: Sequence[int]) -> Use:
        held = usage.memory(some)
        return Use(len(some), usage.spent(before, after, some), held.pss, held.rss)

    at_databases = [pid for name, pid in proxies.items() if mesh.layout.by_name[name].party in databases]
    used = use(list(proxies.values())), use(at_databases), use(application)
    _await(generator, out.exists, GIVEN_UP_SECONDS)
    outcomes = read_outcomes(out.read_text())
    if len(outcomes) != len(planned):
        raise CostError(f"{mesh.mode}: {len(planned)} requests were planned, {len(outcomes)} were sent")
    _marked(mesh.mode, outcomes)
    _passed(mesh, planned)
    first = next(index for index, each in enumerate(planned) if each.after >= load.warm_up * 1e6)
    return Window(
        outcomes=outcomes[first:],
        seconds=ended - began,
        proxies=used[0],
        databases=used[1],
        application=used[2],
        generator=usage.spent(before, after, [generator.pid]),
        machine=machine_after.busy - machine_before.busy,
        stolen=machine_after.stolen - machine_before.stolen,
    )


def _marked(mode: Mode, outcomes: Sequence[Outcome]) -> None:
    """Every answer of the application bears the mark of a policy, or none where there is no mesh."""
    answered = [outcome for outcome in outcomes if outcome.status == "200"]
    marked = sum(outcome.marked for outcome in answered)
    if marked != (0 if mode is Mode.NONE else len(answered)):
        raise CostError(f"{mode}: {marked:,} of {len(answered):,} answers bear `{MARKER}`")
    if not answered:
        raise CostError(f"{mode}: nothing was answered; the first of {len(outcomes):,}: {outcomes[0].status}")


def _passed(mesh: Mesh, planned: Sequence[Planned]) -> None:
    """Every proxy of a service that was called stood in the way."""
    called = reached({each.path for each in planned})
    idle = [name for name in mesh.proxies if mesh.layout.by_name[name].party in called and not mesh.accepted(name)]
    if idle:
        raise CostError(f"{mesh.mode}: no connection went through the proxies of {', '.join(f'`{n}`' for n in idle)}")


def read_outcomes(text: str) -> tuple[Outcome, ...]:
    """What the generator wrote, in the order of its schedule."""
    found = []
    for line in text.splitlines():
        late, took, marked, status = line.split("\t")
        found.append(Outcome(int(late), int(took), marked == "true", status))
    return tuple(found)


def _sleep_until(when: float) -> None:
    """`when` is on the clock that the generator reads, too."""
    while (left := when - time.time()) > 0:
        time.sleep(left)
