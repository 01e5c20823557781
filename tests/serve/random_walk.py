"""A whole server, its state folder, its disk, and simulated proxies: what `test_random_walk` drives at random.

    plans, addresses, commands, refusals, kills, full disks, pods, rules
        --> ActiveConfig + Rollout + Redirection + StateDir + SnapshotCache + xDS streams --> proxies
    each pair of ends of each request --> the policies that it meets

All of the server is the real code, but for the gRPC transport and the content of Envoy's configuration
(`walk_config`). A simulated clock takes the place of time.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admc.base.exits import CommandError
from admc.serve.active_config import ActiveConfig, StateNotSavedError, StateUpdate
from admc.serve.auth.identity import Proof, Settings
from admc.serve.compiling.source import ReadResult, Source
from admc.serve.files.environment import FileEnvironment
from admc.serve.files.redirection import Redirection
from admc.serve.files.state_dir import open_state_dir
from admc.serve.observe.problems import Problems
from admc.serve.persistence import Persistence
from admc.serve.rollout import diff
from admc.serve.rollout.captures import captures
from admc.serve.rollout.model import Placed
from admc.serve.stored_plans import StoredPlans
from emitters.envoy import Mode
from tests.serve.walk_config import Act, ends, enforced, in_place
from tests.serve.walk_proxy import End, Proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from admc.serve.compiling.worker import RestoreState
    from xds_server.resources.snapshot import Snapshot
from tests.serve.walk_plans import (
    CALLS,
    PLACES,
    REPLICAS,
    UNLINK,
    Disk,
    KilledError,
    Plan,
    Which,
    compiled,
    restored,
)

Met = frozenset[tuple[tuple[str, str, str], int]]
"""Kind, arguments and match of each policy that a request met, and how often."""


class _Compiler:
    """In the place of the process that makes a state of a recipe."""

    alive = True

    async def restore(self, request: RestoreState) -> tuple[ReadResult, None]:
        """The server makes the snapshots when it needs them."""
        return ReadResult(restored(request.source, request.recipe), (), "", {}), None


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
        self.given = {diff.version(self.placed(first)): first}
        """All plans that the server was given, by digest."""
        self.since = [first]
        """The plans of which proxies or connections may have something: all since the mesh was at rest last."""
        self.missed: dict[Which, set[tuple[str, str]]] = {}
        """Plans that were published at once, with the services and hops whose redirection was not loaded then."""
        self.was_aborted = False
        """The operator said so, since the mesh was at rest last."""
        self.was_killed = False
        """Since the mesh was at rest last."""
        self.was_not_saved = False
        """The server could not store the last state: as the reconciler, it applies the next one as a whole."""
        self.server: ActiveConfig | None = None
        self.proxies = [Proxy(name, f"{name}-{n}") for name, number in REPLICAS.items() for n in range(number)]
        self.loaded: dict[str, frozenset[str]] = dict(captures(self.plan.placed))
        self.ever_loaded = dict(self.loaded)
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
        server = ActiveConfig(FileEnvironment(self.source, None, Settings(Proof.NONE), self.state_dir), Problems())
        server.store.watchers.append(self._published)
        self.server, self.persistence = server, Persistence(server, self.state_dir)

        async def begin(server: ActiveConfig) -> None:
            await self.persistence.restore(StoredPlans(server.rollout.plans, _Compiler()))  # type: ignore[arg-type]
            await asyncio.to_thread(server.rollout._redirection.load_record)
            server.release_startup_hold()

        try:
            self.run(begin)
        except CommandError:
            self.kill()  # in the middle of a rollout it does not begin where the folder takes nothing

    def _published(self, group: str, old: Snapshot | None, new: Snapshot) -> None:
        self.disk.touch()
        for proxy in self.proxies:
            if proxy.service == group:
                proxy.offer_next()

    def kill(self) -> None:
        for proxy in self.proxies:
            proxy.disconnect()
        self.state_dir.close()
        self.server, self.disk.fuse, self.was_killed, self.was_not_saved = None, None, True, False

    def compile(self) -> None:
        """The server compiles what is wanted."""
        plan = self.plan

        async def apply(server: ActiveConfig) -> bool:
            before = server.state
            if before is not None and (before.program, before.placement) == plan.placed and not self.was_not_saved:
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
        self.given[diff.version(self.placed(self.wanted))] = self.wanted
        self.since += [] if known else [self.wanted]
        try:
            accepted = self.run(apply)
        except StateNotSavedError:
            self.was_not_saved = True
            return
        except CommandError:
            if not known:
                self.since.remove(self.wanted)
            if self.wanted != self.newest:
                self.wanted = self.newest
                self.compile()  # the plan that stays is served at the newest addresses
            return
        if accepted:
            self.newest, self.was_not_saved = self.wanted, False

    def command(self, name: str) -> None:
        async def operate(server: ActiveConfig) -> str:
            return await (server.rollout.abort() if name == "abort" else server.rollout.continue_())

        self.was_aborted = self.was_aborted or name == "abort"
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
            UNLINK(path, missing_ok=True)
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
            self.ever_loaded[service] = names | self.ever_loaded.get(service, frozenset())
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
        self._add_returned()
        rests = self.at_rest
        if rests is not None:
            self.since = list(dict.fromkeys((rests, self.newest, *self._queued)))
            self.missed.clear()
            self.was_killed = self.was_aborted = False
            for proxy in self.proxies:
                proxy.has_refused = False
        self._note_missed()
        steady = in_place(map(self.placed, self.since))
        for source, destination in CALLS:
            wanted = {met for plan in self.since for met in self._wanted(plan, source, destination, steady)}
            common = frozenset.intersection(*(frozenset(each for each, _ in one) for one in wanted))
            for out, into in self._ends(source, destination):
                at = f"{source} -> {destination} at {self._label} with {out} {into}"
                for service, end in ((source, out), (destination, into)):
                    assert not end.lost or self._may_lose(service), f"a connection has lost `{end.lost}`, {at}"
                if out.lost or into.lost:
                    continue  # it fails
                marked = out.marks and out.secret == into.secret and into.marked is not None
                taken = into.marked is not None or not self._is_loaded(*ends(source, destination)[1])
                assert taken or not out.marks, f"the marker reaches the application, {at}"
                met = _counted(_met(out, into, source, marked=marked), steady)
                assert frozenset(met.items()) in wanted, f"meets {sorted(met)}, {at}, wanted {wanted}"
                if out.marks:
                    met = _counted(_met(out, into, source, marked=False), steady)
                    assert common <= met.keys(), f"without its marker meets {sorted(met)}, {at}"

    def _wanted(self, plan: Which, source: str, destination: str, steady: frozenset[str]) -> set[Met]:
        """What requests have to meet by a plan. A plan that moves nothing does not wait for redirection."""
        missed = {end for end in self.missed.get(plan, ()) if not self._is_loaded(*end)}
        found = (enforced(self.placed(plan), source, destination, without) for without in ((), missed))
        return {frozenset(_counted(acts, steady).items()) for acts in found}

    def _is_loaded(self, service: str, hop: str) -> bool:
        return f"{hop} at 80" in self.loaded.get(service, ())

    def _note_missed(self) -> None:
        """A plan at rest may lack redirection. The server says where."""
        if self.server is None or len(self.published) != 1:
            return
        (plan,) = self.published
        needed = {(service, name) for service, names in captures(self.placed(plan)).items() for name in names}
        missed = {(service, name) for service, name in needed if name not in self.loaded.get(service, ())}
        redirection = self.server.rollout._redirection
        assert isinstance(redirection, Redirection)
        known = redirection._known
        asked = {service: own.captures for service, own in known.asked.items()}
        unasked = {(service, name) for service, name in missed if name not in asked.get(service, ())}
        assert not unasked, f"{sorted(unasked)} neither loaded nor requested"
        self.missed[plan] = {(service, name.removesuffix(" at 80")) for service, name in missed}

    @property
    def published(self) -> frozenset[Which]:
        """The plans of which the server publishes something."""
        state = None if self.server is None else self.server.rollout.state
        return frozenset() if state is None else frozenset(self.given[digest] for digest in state.now.plans)

    @property
    def _queued(self) -> tuple[Which, ...]:
        """The plan that waits. A server that was killed may have stored one before it could accept it."""
        state = None if self.server is None else self.server.rollout.state
        return () if state is None or state.queued is None else (self.given[state.queued],)

    def _add_returned(self) -> None:
        """Where all proxies have a plan, and the server has not yet seen that, it may publish the plan before again:
        after an abort or a refusal, and only then."""
        for again in sorted(self.published - set(self.since)):
            refused = any(proxy.has_refused for proxy in self.proxies)
            assert self.was_aborted or refused, f"{again} is published again, and nothing was aborted or refused"
            self.since.append(again)

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
        out, into = ends(source, destination)
        return product(self._of(*out), self._of(*into))

    def _of(self, service: str, hop: str) -> set[End]:
        loaded, ever = (each.get(service, frozenset()) for each in (self.loaded, self.ever_loaded))
        here = (proxy for proxy in self.proxies if proxy.service == service)
        return {end for proxy in here for end in proxy.ends(hop, loaded, ever)}

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
