"""A server in the middle of everything that can happen to it, and the proxies that it tells: `test_wandering`.

    plans, addresses, refusals, kills, full disks, pods, rules  -->  ActiveConfig + Moving + the kept folder  -->  Proxy
    every way of every request through what proxies have        -->  what it meets

Everything that decides is the server's own code. Envoy's configuration is not made here, since that takes most of the
time and is tried elsewhere: a snapshot has a listener that says which filters each hop has, a route table for each hop
with what the step says, and a configuration for each filter. A clock stands in for time, and nothing is on a network.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import cycle, product
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest import mock

from envoy.config.core.v3 import extension_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_pb2
from google.protobuf import wrappers_pb2

from admc.exits import CommandError
from admc.serve.active_config import ActiveConfig, Options, StateNotSavedError, StateUpdate
from admc.serve.auth.identity import Proof, Settings
from admc.serve.build import source as feed
from admc.serve.build.snapshots import SnapshotSet
from admc.serve.build.source import ReadResult, Source, State
from admc.serve.observe.problems import Problems
from admc.serve.persistence import Persistence
from admc.serve.rollout.redirection import Rules
from admc.serve.state_dir.store import open_state_dir
from admc.transition.captures import captures, of_parts
from admc.transition.model import Placed, Toggle
from emitters.envoy import Mode
from emitters.envoy.names import filter_name
from emitters.hops import hops
from xds_server.resources.ack_events import Nacked
from xds_server.resources.snapshot import Resource, Snapshot
from xds_server.resources.types import EXTENSION, LISTENER, ROUTES, TRIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from admc.serve.build.worker import RestoreState
    from admc.serve.state_dir.store import Recipe
    from admc.transition.model import Step
    from dsl.program import Policy
    from emitters.addresses import Addresses

DRAIN: Final = 10.0
LAG: Final = 0.9
"""How long a proxy's workers may go on with a route table that its main thread has replaced."""
REPLICAS: Final = {"web": 2, "till": 1, "cart": 1, "stock": 1}

HEAD: Final = """\
app wander
service web   { http 80  replicas 2 }
service till  { http 80 }
service cart  { http 80 }
service stock { http 80 }
call web, till -> cart
call web -> stock
policy p = add_request_header(name: "x-p", value: "1") on {web, till} -> cart
policy q = deny() on {web, till} -> cart when header("x-out") == "1"
"""
THIRD: Final = (
    "",
    'policy r = set_request_header(name: "x-r", value: "gold") on web -> stock\npin r at egress\n',
    'policy r = set_request_header(name: "x-r", value: "gold") on web -> stock\npin r at ingress\n',
    'policy r = set_request_header(name: "x-r", value: "iron") on web -> stock\npin r at egress\n',
    'policy s = set_request_header(name: "x-r", value: "gold") on web -> stock\npin s at egress\n',
    "service extra { http 80 }\n",
)
SIDES: Final = ("ingress", "egress")
PLANS: Final = tuple(product(SIDES, SIDES, range(len(THIRD))))
"""Where `p` and `q` are, and what becomes of a third policy, or of a service that only some plans know. All of the
first two are of one content."""
PLACES: Final = (1, 2)
"""Where the pods of `cart` are: the only addresses that change."""


class Killed(BaseException):
    """The server dies here."""


class Plan(NamedTuple):
    """A plan, compiled at some addresses."""

    state: State
    recipe: Recipe
    groups: SnapshotSet

    @property
    def placed(self) -> Placed:
        return Placed(self.state.program, self.state.placement)


@dataclass(slots=True)
class Disk:
    """What becomes of writing: the server dies at the operation with number `fuse`; `full` is where nothing fits."""

    fuse: int | None = None
    full: str = ""
    dead: bool = False

    def touch(self, path: Path | None = None) -> None:
        if self.dead:
            raise Killed
        if self.fuse is not None:
            self.fuse -= 1
            if self.fuse < 0:
                self.dead, self.fuse = True, None
                raise Killed
        parts = path is not None and path.parent.name == "objects"
        if path is not None and (self.full == "all" or (self.full == "parts" and parts)):
            raise OSError(28, "No space left on device")


# ---- configuration that is easily read ----

_CONTENT: dict[str, Any] = {}


def _token(content: object) -> str:
    token = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
    _CONTENT[token] = content
    return token


class Hop(NamedTuple):
    """What a listener says of a hop, and which capture brings connections to it."""

    filters: tuple[str, ...]
    capture: str


class Act(NamedTuple):
    """What a policy does, whatever it is called."""

    kind: str
    arguments: str
    match: str


def act(policy: Policy) -> Act:
    return Act(policy.kind.name, repr(sorted(policy.arguments.items())), repr(policy.match))


class Table(NamedTuple):
    """What a route table says."""

    off: frozenset[str] = frozenset()
    met: frozenset[str] = frozenset()
    marks: bool = False
    secret: str = ""


def snapshot(service: str, placed: Placed, toggles: Mapping[str, Toggle], addresses: Addresses) -> Snapshot:
    """What a service's proxy is told."""
    listener: dict[str, Hop] = {}
    made = []
    for hop in hops(*placed).get(service, ()):
        names = tuple(filter_name(hop.name, policy) for policy in hop.policies)
        listener[hop.name] = Hop(names, f"{hop.name} at {hop.port.target}")
        toggle = toggles.get(hop.name, Toggle())
        off, met = (
            frozenset(name for name, policy in zip(names, hop.policies, strict=True) if policy.name in chosen)
            for chosen in (toggle.off, toggle.met)
        )
        # As in Envoy: a table may skip a filter that older connections have, and this listener has not.
        off |= {called for name in toggle.off for called in toggle.filters[name]}
        met |= {called for name in toggle.met for called in toggle.filters[name]}
        table = Table(frozenset(sorted(off)), frozenset(sorted(met)), toggle.marks, toggle.secret)
        made.append(_route(hop.name, (sorted(off), sorted(met), toggle.marks, toggle.secret), table))
        made += [_extension(name, act(policy)) for name, policy in zip(names, hop.policies, strict=True)]
    token = _token(tuple(sorted(listener.items())))
    _CONTENT[token] = listener
    made.append(Resource.of(listener_pb2.Listener(name="both", stat_prefix=token)))
    tried = {each.name: each.version for each in made if each.type_url == EXTENSION}
    if tried:
        made.append(_extension(TRIAL, tried))
    where = sorted(addresses.pod_addresses("cart"))
    made.append(Resource.of(route_pb2.RouteConfiguration(name="addresses", internal_only_headers=where)))
    return Snapshot.of(made)


def _route(name: str, content: object, table: Table) -> Resource:
    token = _token(content)
    _CONTENT[token] = table
    return Resource.of(route_pb2.RouteConfiguration(name=name, internal_only_headers=[token]))


def _extension(name: str, content: object) -> Resource:
    found = extension_pb2.TypedExtensionConfig(name=name)
    found.typed_config.Pack(wrappers_pb2.StringValue(value=_token(content)))
    return Resource.of(found)


def content_of(resource: Resource) -> Any:
    if resource.type_url == LISTENER:
        return _CONTENT[listener_pb2.Listener.FromString(resource.body).stat_prefix]
    if resource.type_url == ROUTES:
        (token, *_) = route_pb2.RouteConfiguration.FromString(resource.body).internal_only_headers or ("",)
        return _CONTENT.get(token, Table())
    value = wrappers_pb2.StringValue()
    extension_pb2.TypedExtensionConfig.FromString(resource.body).typed_config.Unpack(value)
    return _CONTENT[value.value]


def told(step: Step, state: State, only: frozenset[str]) -> dict[str, Snapshot]:
    """In the place of `admc.serve.rollout.stepping.told`."""
    return {
        service: snapshot(service, part.placed, part.toggles, state.addresses)
        for service, part in step.parts.items()
        if service in only
    }


def passing(state: State) -> Snapshot:
    """In the place of `admc.serve.rollout.stepping.passing`."""
    nothing = Placed(state.program, replace(state.placement, decisions=(), adms=()))
    return snapshot("", nothing, {}, state.addresses)


def whole(state: State) -> SnapshotSet:
    """In the place of `admc.serve.build.snapshots.snapshots`."""
    placed = Placed(state.program, state.placement)
    return SnapshotSet(
        {name: snapshot(name, placed, {}, state.addresses) for name in hops(*placed)},
        passing(state),
    )


def wanted(redirected: Mapping[str, Placed], addresses: Addresses) -> dict[str, Rules]:
    """In the place of `admc.serve.rollout.redirection.wanted`."""
    found = {}
    for service, names in of_parts(redirected).items():
        if names:
            text = "\n".join((*sorted(names), *sorted(addresses.pod_addresses("cart")))) + "\n"
            digest = hashlib.sha256("\n".join(text.splitlines() * 2).encode()).hexdigest()
            found[service] = Rules({"iptables.rules": text, "ip6tables.rules": text}, digest)
    return found


class _Compiler:
    """In the place of the process that makes a state of a recipe."""

    async def restore(self, request: RestoreState) -> ReadResult:
        return ReadResult(_remade(request.source, request.recipe), (), "", {})


_REMADE: dict[object, State] = {}


def _remade(source: Source, recipe: Recipe) -> State:
    key = (tuple(recipe.inputs.items()), recipe.plan, recipe.endpoints)
    if key not in _REMADE:
        _REMADE[key] = feed.restored(source, recipe)
    return _REMADE[key]


# ---- proxies ----


class End(NamedTuple):
    """What one end of a call may do with a request."""

    met: tuple[tuple[str, Act], ...] = ()
    unless_marked: tuple[tuple[str, Act], ...] = ()
    secret: str = ""
    marks: bool = False
    lost: bool = False


Thing = tuple[str, str, str]
"""Type, name and version of a resource."""


class Mood(NamedTuple):
    """That a proxy refuses the next thing of a type that changes for it."""

    type_url: str
    lasting: bool
    """Whether it refuses the same bytes ever after."""


@dataclass(slots=True)
class Proxy:
    """One replica's proxy: what it has, and what connections through it began with."""

    service: str
    id: str
    connected: bool = True
    fresh: bool = True
    acknowledged: str = ""
    refuses: bool = False
    listener: Mapping[str, Hop] | None = None
    older: list[tuple[Mapping[str, Hop], float]] = field(default_factory=list)
    """Listeners that connections may still have, and until when."""
    routes: dict[str, Table] = field(default_factory=dict)
    before: dict[str, list[tuple[Table, float]]] = field(default_factory=dict)
    """Route tables that workers may still have, and until when."""
    filters: dict[str, Act] = field(default_factory=dict)
    offered: Snapshot | None = None
    """What its stream began with, or what was published since; none before it has one."""
    target: Snapshot | None = None
    tried: Snapshot | None = None
    """The last one that it began with on its stream."""
    stage: int = 0
    declined: frozenset[Thing] = frozenset()
    """What it refused: that is not sent again on its stream, whatever comes with it."""
    mood: Mood | None = None
    """What it is to refuse next."""
    hates: set[Thing] = field(default_factory=set)
    """What it refuses whenever it comes."""

    @property
    def group(self) -> str:
        return self.service

    @property
    def node(self) -> SimpleNamespace:
        return SimpleNamespace(id=self.id)

    def leave(self) -> None:
        self.connected, self.acknowledged, self.declined, self.refuses = False, "", frozenset(), False
        self.offered = self.target = self.tried = None

    def publish(self, found: Snapshot) -> None:
        self.offered = found
        if self.tried is not None and self.tried.version != self.acknowledged == found.version:
            self.acknowledged = ""  # it is led back to that from another one

    def come(self) -> None:
        self.connected, self.fresh = True, self.listener is None

    def restart(self) -> None:
        self.leave()
        self.listener, self.older, self.routes, self.before, self.filters = None, [], {}, {}, {}
        self.connected = self.fresh = True

    def advance(self, store: Any, now: float, *, refuse: bool = False) -> None:
        """Take one more kind of what it is sent, or refuse it."""
        if not self.connected:
            return
        if self.target is None:
            self.offered = self.offered or store.initial(self.service)
            found = self.offered
            if found is None or found is self.tried or found.version == self.acknowledged:
                return
            if self._declines(found, EXTENSION):
                return  # what a proxy is to try as a whole, it has refused
            self.target, self.tried, self.stage = found, found, 0
        content = {
            kind: {name: content_of(it) for name, it in self.target.of_type(kind).resources.items()}
            for kind in (EXTENSION, LISTENER, ROUTES)
        }
        if self.stage == 0:
            # All of it is tried before any of it is taken.
            tried = content[EXTENSION].pop(TRIAL, {})
            changed = {name for name in tried if self.filters.get(name) != content[EXTENSION][name]}
            if refuse and changed and self.listener is not None and self.mood is None:
                self.mood = Mood(EXTENSION, lasting=False)
            things = {(EXTENSION, name, tried[name]) for name in changed}
            if self.mood is not None and self.mood.type_url == EXTENSION and self.mood.lasting and changed:
                self.hates |= things
            hated = any((EXTENSION, *each) in self.hates for each in tried.items())
            if hated and self.listener is not None:
                self.mood = Mood(EXTENSION, lasting=False)
            if (changed or hated) and self._refuses(store, EXTENSION, {TRIAL}):
                self.target = None
                return
            self.filters.update(content[EXTENSION])
        elif self.stage == 1:
            for name, table in content[ROUTES].items():
                self.routes.setdefault(name, table)
            ((name, listener),) = content[LISTENER].items()
            if self.listener != listener and not self._refuses(store, LISTENER, {name}):
                if self.listener is not None:
                    self.older.append((self.listener, now + DRAIN))
                self.listener = listener
        elif self.stage == 2:
            changed = {name for name, table in content[ROUTES].items() if self.routes[name] != table}
            if not self._refuses(store, ROUTES, changed):
                for name in changed:
                    self.before.setdefault(name, []).append((self.routes[name], now + LAG))
                    self.routes[name] = content[ROUTES][name]
        elif any(self._declines(self.target, kind) for kind in (LISTENER, ROUTES)):
            self.target = None  # old and new are both there
        else:
            content[EXTENSION].pop(TRIAL, None)
            self.filters, self.routes = content[EXTENSION], content[ROUTES]
            self.acknowledged, self.refuses, self.declined = self.target.version, False, frozenset()
            store.acked(self.service, self.target)
            self.target = None
        self.stage += 1

    def _refuses(self, store: Any, kind: str, changed: set[str]) -> bool:
        """Whether it does not take what has changed, or is not sent it. Who has nothing yet has nothing to stay with,
        and needs other words than a transition has."""
        if not changed or self.listener is None or self.target is None:
            return False
        there = self.target.of_type(kind).resources
        things = {(kind, name, there[name].version) for name in changed}
        if things & self.declined:
            self.declined |= things
            return True
        mood = self.mood if self.mood is not None and self.mood.type_url == kind else None
        if mood is None and not things & self.hates:
            return False
        if mood is not None:
            self.mood = None
            self.hates |= things if mood.lasting and kind != EXTENSION else set()
        store.nacked(self.service, Nacked(kind, "", "no", self.target, {name: there[name].version for name in changed}))
        # Of each name the last version.
        before = {each for each in self.declined if each[0] != kind or each[1] not in changed}
        self.refuses, self.declined = True, frozenset(things | before)
        return True

    def _declines(self, found: Snapshot, kind: str) -> bool:
        there = found.of_type(kind).resources
        return any(
            each == kind and name in there and there[name].version == version for each, name, version in self.declined
        )

    def ends(self, name: str, loaded: frozenset[str], now: float) -> Iterator[End]:
        """All that it may do with a request of a hop. Nothing where it refuses connections, having no listener yet."""
        self.older = [(each, until) for each, until in self.older if until > now]
        if self.listener is None:
            return
        for listener in (self.listener, *(each for each, _ in self.older)):
            hop = listener.get(name)
            if hop is None or hop.capture not in loaded:
                yield End()
                continue
            current = self.routes.get(name)
            tables = [table for table, until in self.before.get(name, ()) if until > now]
            missing = current is None or any(each not in self.filters for each in hop.filters)
            if current is None or missing:
                yield End(lost=True)
                continue
            for table in {current, *tables}:
                there = [(each, self.filters[each]) for each in hop.filters if each not in table.off]
                yield End(
                    tuple(each for each in there if each[0] not in table.met),
                    tuple(each for each in there if each[0] in table.met),
                    table.secret,
                    table.marks,
                )


# ---- the world ----


class _Audience:
    """What the server sees of proxies."""

    def __init__(self, world: World) -> None:
        self._world = world

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def views(self, names: Iterable[str]) -> tuple[Any, ...]:
        chosen = set(names)
        return tuple(proxy for proxy in self._world.proxies if proxy.connected and proxy.service in chosen)


class World:
    """A server, its folder, its proxies, and whoever loads rules."""

    def __init__(self, folder: Path, first: tuple[str, str, int]) -> None:
        self.folder = folder
        self.source = Source(folder / "policies.adm", Mode.REDIRECT)
        self.disk = Disk()
        self.now = 1000.0
        self.loop = asyncio.new_event_loop()
        self.wanted, self.place = first, PLACES[0]
        self.since = [first]
        """The plans of which proxies or connections may have something: all since it came to rest last."""
        self.refusals = self.forgot = False
        """Whether there was a refusal since then; whether a server died before it had kept what proxies took last."""
        self.torn: set[str] = set()
        """Services with a proxy that refused something since then, which another one may have begun to take."""
        self.force: ActiveConfig | None = None
        self.proxies = [Proxy(name, f"{name}-{n}") for name, number in REPLICAS.items() for n in range(number)]
        self.loaded = dict(captures(self.plan.placed))
        self.read: dict[str, tuple[str, frozenset[str]]] = {}
        self.start()
        self.compile()
        self.keep()
        while any(proxy.acknowledged == "" for proxy in self.proxies):
            self.all_advance()
        self.hold = self.met_by_all()

    @property
    def plan(self) -> Plan:
        return compiled(self.folder.parent, self.wanted, self.place)

    def _compiled(self, which: tuple[str, str, int]) -> Plan:
        return compiled(self.folder.parent, which, PLACES[0])

    # ---- what happens to the server ----

    def run(self, what: Callable[[ActiveConfig], Any]) -> None:
        """Let the server do something, unless it is dead or dies of it."""
        if self.force is None:
            return
        try:
            self.loop.run_until_complete(what(self.force))
        except Killed:
            self.died()

    def start(self) -> None:
        """A server begins, with what is kept."""
        self.disk.dead = False
        kept = open_state_dir(self.folder / "state")
        force = ActiveConfig(Options(self.source, None, Settings(Proof.NONE), kept, DRAIN), Problems())
        force.server.registry = _Audience(self)  # type: ignore[assignment]
        force.store.watchers.append(self._published)
        self.force, self.keeping = force, Persistence(force, kept)
        self.kept = kept

        async def begin(force: ActiveConfig) -> None:
            await self.keeping.restore(_Compiler())  # type: ignore[arg-type]
            await asyncio.to_thread(force.rollout._capturing.recall)
            force.release_startup_hold()

        try:
            self.run(begin)
        except CommandError:
            self.died()  # in the middle of a transition it does not begin where the folder takes nothing

    def _published(self, group: str, old: Snapshot | None, new: Snapshot) -> None:
        for proxy in self.proxies:
            if proxy.service == group and proxy.offered is not None:
                proxy.publish(new)

    def died(self) -> None:
        if self.force is not None:
            self.forgot |= self._current() != {name: saved.version for name, saved in self.kept._groups.items()}
        self.kept.close()
        self.force, self.disk.fuse = None, None
        for proxy in self.proxies:
            proxy.leave()

    def _current(self) -> dict[str, str]:
        assert self.force is not None
        store = self.force.store
        found = {name: store.current(name) for name in store.groups}
        return {name: snapshot.version for name, snapshot in found.items() if snapshot is not None}

    def compile(self) -> None:
        """What is wanted goes into force, or begins to."""
        plan = self.plan

        async def apply(force: ActiveConfig) -> None:
            before = force.state
            if before is not None and (before.program, before.placement) == plan.placed:
                if before.endpoints_digest != plan.state.endpoints_digest:
                    state = replace(
                        before, addresses=plan.state.addresses, endpoints_digest=plan.state.endpoints_digest
                    )
                    await force.apply(StateUpdate(before, state, plan.groups, plan.recipe))
                return
            await force.apply(StateUpdate(before, plan.state, plan.groups, plan.recipe))

        if self.force is not None and self.wanted not in self.since:
            self.since.append(self.wanted)
        try:
            self.run(apply)
        except StateNotSavedError:
            return

    def keep(self) -> None:
        self.run(lambda _: self.keeping.save())

    def tick(self, seconds: float) -> None:
        self.now += seconds

        async def follow(force: ActiveConfig) -> None:
            async with force.rollout._turn:
                await force.rollout._confirm()
                if force.rollout.underway is not None:
                    await force.rollout._look()

        self.run(follow)

    def lose(self, name: str) -> None:
        """Somebody removes something of what is kept, and the server has a moment to see it. While none runs, only the
        rules: the rest it cannot know without."""
        rules = name.startswith("interception")
        if self.disk.full or self.disk.fuse is not None or (self.force is None and not rules):
            return
        path = self.folder / "state" / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            _UNLINK(path, missing_ok=True)  # by somebody else than the server
        self.keep()

    # ---- what happens to proxies ----

    def advance(self, proxy: Proxy, *, refuse: bool = False) -> None:
        if self.force is None:
            return
        before = proxy.refuses
        proxy.advance(self.force.store, self.now, refuse=refuse)
        if proxy.refuses and not before:
            self.refusals = True
            self.torn |= {proxy.service} if REPLICAS[proxy.service] > 1 else set()

    def all_advance(self) -> None:
        for proxy in self.proxies:
            if self.force is not None and not proxy.connected:
                proxy.come()
            for _ in range(4):
                self.advance(proxy)

    # ---- what happens to rules ----

    def look_at_rules(self, service: str) -> None:
        """Somebody begins to load what is asked for."""
        place = self.folder / "state" / "interception" / service
        if (place / "digest").exists() and (place / "iptables.rules").exists():
            names = frozenset((place / "iptables.rules").read_text().splitlines())
            self.read[service] = (place / "digest").read_text(), names

    def load_rules(self, service: str) -> None:
        """And is done, with what was asked for when it began."""
        if service in self.read:
            digest, names = self.read.pop(service)
            self.loaded[service] = names
            place = self.folder / "state" / "interception" / service
            place.mkdir(parents=True, exist_ok=True)
            (place / "loaded").write_text(digest)

    def replace_pods(self, service: str) -> None:
        """While all rests: the new ones have what the plan in force needs, if the old ones had that."""
        if self.at_rest and self.force is not None and self.force.state is not None:
            state = self.force.state
            needed = captures(Placed(state.program, state.placement)).get(service, frozenset())
            self.loaded[service] = self.loaded.get(service, frozenset()) & needed

    # ---- what becomes of requests ----

    @property
    def at_rest(self) -> bool:
        force = self.force
        return force is not None and force.state is not None and force.rollout.underway is None

    def requests(self) -> Iterator[tuple[str, str, tuple[Act, ...], frozenset[str]]]:
        """Each way of each request: from whom to whom, what it meets, and where it is lost."""
        for source, destination in (("web", "cart"), ("till", "cart"), ("web", "stock")):
            out = self._ends(source, f"egress/{destination}:80")
            into = self._ends(destination, "ingress/80")
            for one, other in product(out, into):
                marked = one.marks and one.secret == other.secret
                met = (*one.met, *one.unless_marked, *other.met, *(() if marked else other.unless_marked))
                lost = frozenset(name for name, end in ((source, one), (destination, other)) if end.lost)
                yield source, destination, tuple(each for _, each in met), lost

    def _ends(self, service: str, hop: str) -> set[End]:
        loaded = self.loaded.get(service, frozenset())
        here = (proxy for proxy in self.proxies if proxy.service == service)
        return {end for proxy in here for end in proxy.ends(hop, loaded, self.now)}

    def met_by_all(self) -> frozenset[tuple[str, str, Act]]:
        """What every request of a call meets now."""
        found: dict[tuple[str, str], frozenset[Act]] = {}
        for source, destination, met, _ in self.requests():
            found[source, destination] = found.get((source, destination), frozenset(met)) & frozenset(met)
        return frozenset((*call, each) for call, acts in found.items() for each in acts)

    def judge(self) -> None:
        """No request passes unenforced, none is lost, and none meets twice what acts once."""
        if self.at_rest and self.force is not None and self.force.state is not None:
            # Addresses that have just changed leave the plan as it is.
            inputs = self.force.state.program.inputs
            (now,) = (each for each in self.since if self._compiled(each).state.program.inputs == inputs)
            if self.since != [now]:
                self.since, self.refusals, self.torn = [now], False, set()
                self.hold = self.met_by_all()
            taken = {name: found.version for name, found in self.force.acknowledged.items()}
            self.forgot = self.forgot and not (taken and taken == self._current())
        plans = [self._compiled(each).placed for each in self.since]
        everywhere = [scope(each) for each in plans]
        held = self.hold.intersection(*everywhere)
        once = act(plans[0].program.policy_by_name["p"])
        for source, destination, met, lost in self.requests():
            at = f"{source} -> {destination}: {[each.kind for each in met]} with {self.since}"
            assert self.forgot or lost <= self.torn, f"a connection has lost what it needs, {at}"
            if lost:
                continue  # it fails
            for one in held:
                assert (source, destination) != one[:2] or one[2] in met, f"a gap of {one[2]}, {at}"
            assert self.refusals or met.count(once) < 2, f"twice, {at}"

    # ---- and in the end ----

    def come_to_rest(self) -> None:
        """All that was wrong is right again: then the newest plan goes into force."""
        self.disk.full, self.disk.fuse = "", None
        if self.force is None:
            self.start()
        for proxy in self.proxies:
            proxy.mood = None
            proxy.hates.clear()
        others = cycle((0, len(THIRD) - 1))
        for number in range(400):
            self.compile()
            self.all_advance()
            for service in REPLICAS:
                self.look_at_rules(service)
                self.load_rules(service)
            self.tick((0.5, 1.1, 1.1, 7.0)[number % 4])
            self.judge()
            self.keep()
            force = self.force
            assert force is not None
            if not force.rollout.said and not force.problems.summary and self.behind is None:
                break
            if number == 40:
                # What refused is mended. The same bytes are not sent again on a stream, nor for as long as a server
                # remembers that they were refused.
                self.died()
                self.start()
            if number % 80 == 79 and self.refusals:
                # What was refused, only a newer plan mends, and where that began with it one that moves nothing.
                self.wanted = (*self.wanted[:2], next(others))
        force = self.force
        assert force is not None
        assert force.rollout.said == force.problems.summary == ""
        assert force.state is not None
        assert force.state.version == self.plan.state.version
        assert self.behind is None
        assert self.met_by_all() == scope(self.plan.placed)
        assert not (self.folder / "state" / "transition.json").exists()

    @property
    def behind(self) -> str | None:
        """A proxy that has something else than the newest plan."""
        expected = self.plan.groups
        for proxy in self.proxies:
            right = expected.by_service.get(proxy.service, expected.passthrough)
            if right is None or proxy.acknowledged != right.version:
                return proxy.id
        return None

    def close(self) -> None:
        self.kept.close()
        self.loop.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def scope(placed: Placed) -> frozenset[tuple[str, str, Act]]:
    """What requests are to meet under a plan."""
    program = placed.program
    return frozenset(
        (program.calls[index].source, program.calls[index].destination, act(policy))
        for policy in program.policies
        for index in policy.calls
    )


@cache
def compiled(folder: Path, which: tuple[str, str, int], place: int) -> Plan:
    p, q, third = which
    path = folder / "policies.adm"
    path.write_text(f"{HEAD}pin p at {p}\npin q at {q}\n{THIRD[third]}")
    pods = {
        "web": '"pods": ["10.1.0.1", "10.1.0.2"]',
        "till": '"pods": ["10.1.0.3"]',
        "cart": f'"addresses": ["10.2.0.1"], "pods": ["10.1.1.{place}"]',
        "stock": '"addresses": ["10.2.0.2"], "pods": ["10.1.0.5"]',
    }
    if "service extra" in THIRD[third]:
        pods["extra"] = '"addresses": ["10.2.0.3"], "pods": ["10.1.0.6"]'
    endpoints = '{"services": {' + ", ".join(f'"{name}": {{{text}}}' for name, text in pods.items()) + "}}"
    read = feed.read(Source(path, Mode.REDIRECT), (endpoints.encode(),), with_recipe=True)
    assert read.state is not None, read.findings
    assert read.recipe is not None
    return Plan(read.state, read.recipe, whole(read.state))


@contextmanager
def simulated(world: Callable[[], World | None]) -> Iterator[None]:
    """The clock, the disk and the configuration are those of a world."""

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

    def changed(before: State, after: State) -> SnapshotSet:
        return whole(after)

    with ExitStack() as stack:
        for name, new in (
            ("admc.serve.rollout.publisher.told", told),
            ("admc.serve.rollout.stepping.told", told),
            ("admc.serve.rollout.controller.passing", passing),
            ("admc.serve.rollout.controller.changed", changed),
            ("admc.serve.rollout.redirection.wanted", wanted),
            ("admc.serve.persistence.restored", _remade),
            ("admc.serve.rollout.controller.time", SimpleNamespace(monotonic=clock)),
            ("admc.serve.rollout.publisher.time", SimpleNamespace(monotonic=clock)),
            ("asyncio.to_thread", at_once),
            ("os.fsync", lambda _: None),
            ("pathlib.Path.unlink", checked(_UNLINK)),
            ("pathlib.Path.replace", checked(Path.replace)),
        ):
            stack.enter_context(mock.patch(name, new))
        yield


_UNLINK: Final = Path.unlink
