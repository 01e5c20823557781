"""A whole server, its state folder, its disk, and simulated proxies: what `test_random_walk` drives at random.

    plans, addresses, commands, refusals, kills, full disks, pods, rules
        --> ActiveConfig + Rollout + Redirection + StateDir + SnapshotCache + xDS streams --> proxies
    each pair of ends of each request --> the policies that it meets

All of the server is the real code, but for the gRPC transport and the content of Envoy's configuration
(`walk_config`). A simulated clock takes the place of time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from itertools import cycle, product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest import mock

from admc.exits import CommandError
from admc.rollout import diff
from admc.rollout.captures import captures
from admc.rollout.model import Placed
from admc.rollout.retention import steady_guards
from admc.serve.active_config import ActiveConfig, Options, StateNotSavedError, StateUpdate
from admc.serve.auth.identity import Proof, Settings
from admc.serve.build import source as feed
from admc.serve.build.snapshots import SnapshotSet
from admc.serve.build.source import ReadResult, Source, State
from admc.serve.observe.problems import Problems
from admc.serve.persistence import Persistence
from admc.serve.rollout.redirection import Rules
from admc.serve.state_dir.store import open_state_dir
from emitters.envoy import Mode
from tests.serve.walk_config import Act, enforced, in_place, nothing, resting, stepping
from tests.serve.walk_proxy import End, Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from admc.rollout.model import Step
    from admc.serve.build.worker import RestoreState
    from admc.serve.state_dir.store import Recipe
    from emitters.addresses import Addresses
    from xds_server.resources.snapshot import Snapshot

REPLICAS: Final = {"web": 2, "till": 1, "cart": 1, "stock": 1}
CALLS: Final = (("web", "cart"), ("till", "cart"), ("web", "stock"))

HEAD: Final = """\
app walk
service web   { http 80  replicas 2 }
service till  { http 80 }
service cart  { http 80 }
service stock { http 80 }
call web, till -> cart
call web -> stock
"""
SIDES: Final = ("ingress", "egress")
VALUES: Final = ("1", "2")
THIRD: Final = (
    "",
    'policy r = set_request_header(name: "x-r", value: "gold") on web -> stock\npin r at egress\n',
    'policy r = set_request_header(name: "x-r", value: "gold") on web -> stock\npin r at ingress\n',
    'policy r = set_request_header(name: "x-r", value: "iron") on web -> stock\npin r at egress\n',
    'policy s = set_request_header(name: "x-r", value: "gold") on web -> stock\npin s at egress\n',
    "service extra { http 80 }\n",
    "policy g = allow(callers: [web, till]) on * -> cart\n",
    "policy g = allow(callers: [web]) on * -> cart\n",
)


class Which(NamedTuple):
    """One of the plans of a walk."""

    p: str
    """Where `p` is; empty: there is no such policy."""
    q: str
    value: str
    """An argument of `p`."""
    third: int
    """What becomes of a third policy, or of a service that only some plans have."""


PLANS: Final = tuple(
    Which(p, q, value, third)
    for p, q, value, third in product(("", *SIDES), ("", *SIDES), VALUES, range(len(THIRD)))
    if p or value == VALUES[0]
)
PLACES: Final = (1, 2)
"""Where the pods of `cart` are: the only addresses that change."""


class KilledError(BaseException):
    """The server process is killed here."""


class Plan(NamedTuple):
    """A plan, compiled at some addresses."""

    state: State
    recipe: Recipe
    groups: SnapshotSet

    @property
    def placed(self) -> Placed:
        return Placed(self.state.program, self.state.placement)


class Disk:
    """What becomes of writing: the server is killed at the effect with number `fuse`; `full` is where nothing fits."""

    def __init__(self) -> None:
        self.fuse: int | None = None
        self.full = ""
        self.dead = False

    def touch(self, path: Path | None = None) -> None:
        if self.dead:
            raise KilledError
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.dead, self.fuse = True, None
                raise KilledError
        objects = path is not None and path.parent.name == "objects"
        if path is not None and (self.full == "all" or (self.full == "objects" and objects)):
            raise OSError(28, "No space left on device")


class _Compiler:
    """In the place of the process that makes a state of a recipe."""

    async def restore(self, request: RestoreState) -> ReadResult:
        return ReadResult(_restored(request.source, request.recipe), (), "", {})


class World:
    """A server, its folder, its proxies, and the operator that loads redirection rules."""

    def __init__(self, folder: Path, first: Which) -> None:
        self.folder = folder
        self.source = Source(folder / "policies.adm", Mode.REDIRECT)
        self.disk = Disk()
        self.now = 1000.0
        self.loop = asyncio.new_event_loop()
        self.wanted, self.place = first, PLACES[0]
        self.newest = first
        """The last plan that the server accepted."""
        self.aborted = False
        self.since = [first]
        """The plans of which proxies or connections may have something: all since the mesh was at rest last."""
        self.was_killed = False
        """Since the mesh was at rest last."""
        self.server: ActiveConfig | None = None
        self.proxies = [Proxy(name, f"{name}-{n}") for name, number in REPLICAS.items() for n in range(number)]
        self.loaded: dict[str, frozenset[str]] = dict(captures(self.plan.placed))
        self.read: dict[str, tuple[str, frozenset[str]]] = {}
        self.start()
        self.compile()
        self.save()
        for _ in range(20):
            self.all_advance()
            self.tick(1.1)
        assert self.at_rest == first, "the first plan is not in force"
        self.judge()

    @property
    def plan(self) -> Plan:
        return compiled(self.folder.parent, self.wanted, self.place)

    def placed(self, which: Which) -> Placed:
        return compiled(self.folder.parent, which, PLACES[0]).placed

    # ---- what happens to the server ----

    def run(self, what: Callable[[ActiveConfig], Any]) -> Any:
        """Let the server do something, unless it is dead or is killed meanwhile."""
        if self.server is None:
            return None
        try:
            return self.loop.run_until_complete(what(self.server))
        except KilledError:
            self.kill()
            return None

    def start(self) -> None:
        """A server starts, with what is stored."""
        self.disk.dead = False
        self.state_dir = open_state_dir(self.folder / "state")
        server = ActiveConfig(Options(self.source, None, Settings(Proof.NONE), self.state_dir), Problems())
        server.store.watchers.append(self._published)
        self.server, self.persistence = server, Persistence(server, self.state_dir)

        async def begin(server: ActiveConfig) -> None:
            await self.persistence.restore(_Compiler())  # type: ignore[arg-type]
            await asyncio.to_thread(server.rollout._redirection.recall)
            server.release_startup_hold()

        try:
            self.run(begin)
        except CommandError:
            self.kill()  # in the middle of a rollout it does not begin where the folder takes nothing

    def _published(self, group: str, old: Snapshot | None, new: Snapshot) -> None:
        self.disk.touch()
        for proxy in self.proxies:
            if proxy.service == group:
                proxy.offer(new)

    def kill(self) -> None:
        for proxy in self.proxies:
            proxy.disconnect()
        self.state_dir.close()
        self.server, self.disk.fuse, self.was_killed = None, None, True

    def compile(self) -> None:
        """The server compiles what is wanted."""
        plan = self.plan

        async def apply(server: ActiveConfig) -> bool:
            before = server.state
            if before is not None and (before.program, before.placement) == plan.placed:
                if before.endpoints_digest == plan.state.endpoints_digest:
                    return True
                # As the reconciler does with new addresses: the program stays the same object.
                new = plan.state
                state = replace(before, addresses=new.addresses, endpoints_digest=new.endpoints_digest)
                await server.apply(StateUpdate(before, state, plan.groups, plan.recipe))
                return True
            await server.apply(StateUpdate(before, plan.state, plan.groups, plan.recipe))
            return True

        if self.server is None:
            return
        known = self.wanted in self.since
        self.since += [] if known else [self.wanted]
        try:
            accepted = self.run(apply)
        except StateNotSavedError:
            return
        except CommandError:
            if not known:
                self.since.remove(self.wanted)
            self.wanted = self.newest
            return
        if accepted and self.newest != self.wanted:
            self.newest, self.aborted = self.wanted, False

    def command(self, name: str) -> None:
        async def operate(server: ActiveConfig) -> str:
            return await (server.rollout.abort() if name == "abort" else server.rollout.continue_())

        try:
            self.run(operate)
        except CommandError:
            return

    def save(self) -> None:
        self.run(lambda _: self.persistence.save())

    def tick(self, seconds: float) -> None:
        self.now += seconds
        for proxy in self.proxies:
            proxy.pass_time(self.now, patient=seconds < 1.0)

        async def follow(server: ActiveConfig) -> None:
            rollout = server.rollout
            async with rollout._turn:
                await rollout._confirm()
                if rollout._is_due:
                    await rollout._look()

        self.run(follow)

    def lose(self, name: str) -> None:
        """Another process removes a file of the folder, and the server has a moment to see it. While no server runs,
        only rules: it cannot make up the rest."""
        rules = name.startswith("interception")
        if self.disk.full or self.disk.fuse is not None or (self.server is None and not rules):
            return
        path = self.folder / "state" / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            _UNLINK(path, missing_ok=True)
        self.save()

    # ---- what happens to proxies ----

    def connect(self, proxy: Proxy) -> None:
        if self.server is not None and proxy.stream is None:
            self.server.rollout.publisher.serve(proxy.service)
            proxy.connect(self.server.server)

    def advance(self, proxy: Proxy) -> None:
        proxy.advance(self.now)

    def all_advance(self) -> None:
        for proxy in self.proxies:
            self.connect(proxy)
            for _ in range(12):
                self.advance(proxy)

    # ---- what happens to rules ----

    def read_rules(self, service: str) -> None:
        """The operator begins to load the rules of the folder."""
        place = self.folder / "state" / "interception" / service
        if (place / "digest").exists() and (place / "iptables.rules").exists():
            names = frozenset((place / "iptables.rules").read_text().splitlines())
            self.read[service] = (place / "digest").read_text(), names

    def load_rules(self, service: str) -> None:
        """The operator has loaded what it read."""
        if service in self.read:
            digest, names = self.read.pop(service)
            self.loaded[service] = names
            place = self.folder / "state" / "interception" / service
            place.mkdir(parents=True, exist_ok=True)
            (place / "loaded").write_text(digest)

    # ---- what becomes of requests ----

    @property
    def at_rest(self) -> Which | None:
        """The plan that every proxy has, and no connection anything else."""
        if self.server is None or self.server.rollout.state is None:
            return None
        state = self.server.rollout.state
        if state.now.goal is not None:
            return None
        found = [each for each in self.since if diff.version(self.placed(each)) == state.now.base]
        if len(found) != 1 or not all(self._has_all(proxy) for proxy in self.proxies):
            return None
        needed = captures(self.placed(found[0])).items()
        return found[0] if all(names <= self.loaded.get(name, frozenset()) for name, names in needed) else None

    def _has_all(self, proxy: Proxy) -> bool:
        assert self.server is not None
        snapshot = self.server.store.current(proxy.service)
        if proxy.older or proxy.before or proxy.listener is None or snapshot is None:
            return False
        there = {
            kind: {name: item.version for name, item in found.resources.items()}
            for kind, found in snapshot.collections.items()
        }
        return there == {
            kind: {name: held.version for name, held in own.items()} for kind, own in proxy.held.items() if own
        }

    def judge(self) -> None:
        """Each request meets the policies of exactly one plan, and none of them is lost. Without its marker it meets
        all policies that the plans have in common."""
        rests = self.at_rest
        if rests is not None:
            self.since = [rests] + ([self.newest] if self.newest != rests else [])
            self.was_killed = False
            for proxy in self.proxies:
                proxy.has_refused = False
        plans = [self.placed(each) for each in self.since]
        steady = in_place(plans)
        for source, destination in CALLS:
            wanted = {frozenset(_counted(enforced(plan, source, destination), steady).items()) for plan in plans}
            common = frozenset.intersection(*(frozenset(each for each, _ in one) for one in wanted))
            for out, into in self._ends(source, destination):
                at = f"{source} -> {destination} at {self._label} with {out} {into}"
                for service, end in ((source, out), (destination, into)):
                    assert not end.lost or self._may_lose(service), f"a connection has lost `{end.lost}`, {at}"
                if out.lost or into.lost:
                    continue  # it fails
                marked = out.marks and out.secret == into.secret and into.marked is not None
                assert not out.marks or into.marked is not None, f"the marker reaches the application, {at}"
                met = _counted(_met(out, into, source, marked=marked), steady)
                assert frozenset(met.items()) in wanted, f"meets {sorted(met)}, {at}, wanted {wanted}"
                if out.marks:
                    met = _counted(_met(out, into, source, marked=False), steady)
                    assert common <= met.keys(), f"without its marker meets {sorted(met)}, {at}"

    def _may_lose(self, service: str) -> bool:
        """A server that was killed before it had stored the last acknowledgements leads a proxy that comes back to an
        earlier snapshot, if another proxy of the service refuses the present one."""
        proxies = [proxy for proxy in self.proxies if proxy.service == service]
        return self.was_killed and len(proxies) > 1 and any(proxy.has_refused for proxy in proxies)

    @property
    def _label(self) -> object:
        state = None if self.server is None else self.server.rollout.state
        return state and (state.now.step, state.back, self.since)

    def _ends(self, source: str, destination: str) -> Iterator[tuple[End, End]]:
        out = self._of(source, f"egress/{destination}:80")
        return product(out, self._of(destination, "ingress/80"))

    def _of(self, service: str, hop: str) -> set[End]:
        loaded = self.loaded.get(service, frozenset())
        here = (proxy for proxy in self.proxies if proxy.service == service)
        return {end for proxy in here for end in proxy.ends(hop, loaded)}

    # ---- the end ----

    def come_to_rest(self) -> None:
        """Nothing goes wrong any more: the newest plan comes into force, and nothing else is left."""
        self.disk.full, self.disk.fuse = "", None
        for proxy in self.proxies:
            proxy.refusal = None
            proxy.refused.clear()
        others = cycle((0, 1, len(THIRD) - 1))
        for number in range(300):
            if self.server is None:
                self.start()
            self.compile()
            self.command("continue")
            self.all_advance()
            for service in (*REPLICAS, "extra"):
                self.read_rules(service)
                self.load_rules(service)
            self.judge()
            self.tick((0.5, 1.1, 1.1, 7.0)[number % 4])
            self.judge()
            self.save()
            if self._is_over:
                break
            if number == 40:
                self.kill()  # a refused resource is not sent again on its stream
            if number in (80, 160):
                for proxy in self.proxies:
                    proxy.restart()
            if number % 100 == 99:
                self.wanted = self.wanted._replace(third=next(others))
        self._check_end()

    @property
    def _is_over(self) -> bool:
        server = self.server
        if server is None or server.rollout.state is None or server.problems.summary:
            return False
        state = server.rollout.state
        return not server.rollout.text and not state.kept and len(state.may_have) == 1 and self.at_rest == self.wanted

    def _check_end(self) -> None:
        server = self.server
        assert server is not None
        state = server.rollout.state
        assert state is not None
        assert server.problems.summary == ""
        assert server.rollout.text == ""
        assert self.at_rest == self.wanted, f"at {state}, not at {self.wanted}"
        assert not state.kept, state
        assert not server.rollout.publisher.frozen
        assert len(state.may_have) == 1, state
        for name in server.store.groups:
            snapshot = server.store.current(name)
            assert snapshot is not None
            right = self.plan.groups.by_service.get(name, self.plan.groups.passthrough)
            assert right is not None
            assert snapshot.version == right.version, name
        self.check_folder()
        assert not (self.folder / "state" / "rollout").exists()

    def check_folder(self) -> None:
        """No object is left without a reference, and none that has one is missing."""
        objects = {path.name for path in (self.folder / "state" / "objects").iterdir()}
        assert objects == self.state_dir._manifest.objects

    def close(self) -> None:
        self.state_dir.close()
        self.loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _met(out: End, into: End, source: str, *, marked: bool) -> list[Act]:
    there = into.marked if marked and into.marked is not None else into.unmarked
    return [*out.unmarked, *(each for each in there if source in each.sources)]


def _counted(acts: Sequence[Act], steady: frozenset[str]) -> Counter[tuple[str, str, str]]:
    """What was met, and how often. Names do not matter, nor do arguments that change in place."""
    return Counter((act.kind, "" if act.name in steady else act.arguments, act.match) for act in acts)


# ---- plans ----


@cache
def compiled(folder: Path, which: Which, place: int) -> Plan:
    path = folder / "policies.adm"
    p = f'policy p = add_request_header(name: "x-p", value: "{which.value}") on {{web, till}} -> cart\n'
    q = 'policy q = deny() on {web, till} -> cart when header("x-out") == "1"\n'
    text = HEAD
    text += f"{p}pin p at {which.p}\n" if which.p else ""
    text += f"{q}pin q at {which.q}\n" if which.q else ""
    path.write_text(text + THIRD[which.third])
    services: dict[str, Any] = {
        "web": {"pods": ["10.1.0.1", "10.1.0.2"]},
        "till": {"pods": ["10.1.0.3"]},
        "cart": {"addresses": ["10.2.0.1"], "pods": [f"10.1.1.{place}"]},
        "stock": {"addresses": ["10.2.0.2"], "pods": ["10.1.0.5"]},
    }
    if "service extra" in THIRD[which.third]:
        services["extra"] = {"addresses": ["10.2.0.3"], "pods": ["10.1.0.6"]}
    endpoints = json.dumps({"services": services}).encode()
    read = feed.read(Source(path, Mode.REDIRECT), (endpoints,), with_recipe=True)
    assert read.state is not None, read.findings
    assert read.recipe is not None
    return Plan(read.state, read.recipe, resting(read.state))


_RESTORED: dict[object, State] = {}


def _restored(source: Source, recipe: Recipe) -> State:
    key = (tuple(recipe.inputs.items()), recipe.plan, recipe.endpoints)
    if key not in _RESTORED:
        _RESTORED[key] = feed.restored(source, recipe)
    return _RESTORED[key]


# ---- what is not the server's own ----


def _wanted(redirected: Mapping[str, Placed], addresses: Addresses) -> dict[str, Rules]:
    """In the place of `redirection.wanted`: rules that are names of captures."""
    found = {}
    for service, placed in redirected.items():
        names = captures(placed).get(service, frozenset())
        if names:
            text = "\n".join((*sorted(names), *sorted(addresses.pod_addresses("cart")))) + "\n"
            digest = hashlib.sha256("\n".join(text.splitlines() * 2).encode()).hexdigest()
            found[service] = Rules({"iptables.rules": text, "ip6tables.rules": text}, digest)
    return found


def _by_versions(function: Callable[..., Any]) -> Callable[..., Any]:
    """A pure function of two plans, computed once for each pair of all walks."""
    known: dict[object, Any] = {}

    def found(old: Placed, new: Placed, *rest: Any) -> Any:
        key = (diff.version(old), diff.version(new), *rest)
        if key not in known:
            known[key] = function(old, new, *rest)
        return known[key]

    return found


_STEPS: dict[object, dict[str, Snapshot]] = {}


class _Emitted:
    """In the place of `resources.Emitted`."""

    def __init__(self, step: Step, addresses: Addresses, mode: Mode, only: Any = None) -> None:
        self._addresses, self._mode, self._only = addresses, mode, only

    def at(self, step: Step) -> dict[str, Snapshot]:
        plans, at = (diff.version(step.old), diff.version(step.new)), self._addresses.pod_addresses("cart")
        key = (plans, step.name, step.secrets, at, self._only)
        if key not in _STEPS:
            _STEPS[key] = stepping(step, self._addresses, self._mode, self._only)
        return _STEPS[key]


_DIFF, _GUARDS = (_by_versions(each) for each in (diff.Diff, steady_guards))
_UNLINK: Final = Path.unlink
_REPLACE: Final = Path.replace


@contextmanager
def simulated(world: Callable[[], World | None]) -> Iterator[None]:
    """The clock, the disk and the content of configuration are those of a world."""

    async def at_once(what: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return what(*arguments, **named)

    def checked(before: Callable[..., Any]) -> Callable[..., Any]:
        def touch(path: Path, *arguments: Any, **named: Any) -> Any:
            here = world()
            if here is not None and here.folder in path.parents:
                here.disk.touch(None if before is _UNLINK else path)
            return before(path, *arguments, **named)

        return touch

    def clock() -> float:
        here = world()
        return 0.0 if here is None else here.now

    with ExitStack() as stack:
        for name, new in (
            ("admc.serve.rollout.plans.Emitted", _Emitted),
            ("admc.serve.rollout.plans.snapshot", lambda found: found),
            ("admc.serve.rollout.plans.snapshots", resting),
            ("admc.serve.rollout.plans.passthrough", lambda program, addresses: nothing()),
            ("admc.serve.rollout.plans.changed", lambda before, after: resting(after)),
            ("admc.serve.rollout.plans.Diff", _DIFF),
            ("admc.serve.rollout.plans.steady_guards", _GUARDS),
            ("admc.serve.rollout.redirection.wanted", _wanted),
            ("admc.serve.persistence.restored", _restored),
            ("admc.serve.rollout.controller.time", SimpleNamespace(monotonic=clock)),
            ("admc.serve.rollout.publisher.time", SimpleNamespace(monotonic=clock)),
            ("asyncio.to_thread", at_once),
            ("os.fsync", lambda _: None),
            ("pathlib.Path.unlink", checked(_UNLINK)),
            ("pathlib.Path.replace", checked(_REPLACE)),
        ):
            stack.enter_context(mock.patch(name, new))
        yield
