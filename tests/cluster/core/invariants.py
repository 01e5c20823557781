"""What holds after each step of a walk, by definitions that share nothing with the indices of the core."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from admc.compile.facts import from_json
from admc.kubernetes.cluster.core.step import READ_AGAIN_SECONDS, mismatches
from dsl.diagnostics.diagnostic import Severity
from emitters.health_probes import probes_of
from tests.cluster.core.world import OWN, Walk

if TYPE_CHECKING:
    from admc.kubernetes.cluster.core.followed import FollowedProgram
    from admc.kubernetes.cluster.core.state import Outputs, ProgramReading, Wanted
    from admc.kubernetes.cluster.records import Key

HOLD = 300.0
Members = dict[tuple[int, str], dict[str, Mapping[str, str]]]
"""(program, service) -> uid of a pod -> its labels."""


class Judge:
    """Looks at a walk after each step, and remembers what it saw."""

    def __init__(self, walk: Walk) -> None:
        self.walk = walk
        self.shown: dict[tuple[int, str, str], float] = {}
        """(program, service, fact) -> until when it certainly stays in force."""
        self.unseen: dict[tuple[int, str, str], float] = {}
        """(program, service, fact) -> the first step that saw pods without it."""
        self.members: Members = {}
        self.clients: Mapping[str, int] = {}
        self.uids: dict[Key, str] = {}
        self.owners: dict[tuple[int, str], str] = {}
        """(program, address) -> the service that has it."""
        self.reading: ProgramReading | None = None
        self.read_at = 0.0
        """The last reading, and the time of the step that took it over."""
        self.before: Outputs | None = None
        self.look()

    def look(self) -> None:
        walk, state = self.walk, self.walk.state
        self._idempotent()
        listed = {program.number: _services(program.endpoints.document) for program in state.followed.values()}
        for program in state.followed.values():
            _one_owner(program, listed[program.number])
            self._pods(program, listed[program.number])
            self._probes(program)
            self._facts(program)
        self._document(listed)
        self._in_force()
        self._wanted()
        self._clients()
        self._deadline()
        self._read_again()
        if walk.outputs.owner is not None:
            assert walk.outputs.owner.uid in {program.uid for program in walk.world.programs.values()}
        self.before = walk.outputs

    def _idempotent(self) -> None:
        state, outputs, deadline = self.walk.repeat()
        assert outputs == self.walk.outputs
        assert deadline == self.walk.deadline
        for name, before, after in zip(type(state)._fields, self.walk.state, state, strict=True):
            assert before == after, f"`{name}` differs after the same step"

    # ---- addresses ----

    def _pods(self, program: FollowedProgram, listed: Mapping[str, Any]) -> None:
        """A pod is known before it may speak, and a pod that is over is not known any more."""
        world, selection = self.walk.world, program.selection
        members = {name: world.selected(key) for name, key in selection.keys.items()}
        for name, pods in members.items():
            assert dict(selection.pods(name)) == pods
        where: dict[str, dict[str, bool]] = {}
        for name, pods in members.items():
            for record in pods.values():
                for address in () if record.host_network else record.addresses:
                    stays = where.setdefault(address, {})
                    stays[name] = stays.get(name, False) or not record.is_terminating
        for address, there in where.items():
            rivals = [name for name in there if there[name]] or list(there)
            if len(rivals) == 1:  # the address is this service's from here on, listed or not
                self.owners[program.number, address] = rivals[0]
        for name, pods in members.items():
            own = {address for address, names in where.items() if name in names}
            if name not in listed:
                continue
            assert selection.keys[name] in world.services
            assert not world.services[selection.keys[name]].external_name
            for other, others in members.items():
                assert other == name or not pods.keys() & others.keys()
            known = set(listed[name]["pods"])
            labels = world.services[selection.keys[name]].receivers.items()
            receiving = {
                address for record in pods.values() for address in record.addresses if labels <= record.labels.items()
            }
            elsewhere = {address for record in pods.values() for address in record.addresses} - receiving
            assert set(listed[name].get("apart", ())) == elsewhere & known
            slices = world.slices.values() if not world.services[selection.keys[name]].selector else ()
            possible = {address for record in pods.values() for address in record.addresses} | {
                address for record in slices if record.service == name for address in record.addresses
            }
            assert known <= possible, f"`{name}` has addresses of no pod of its own"
            for address in own & known:
                there = where[address]
                rivals = {other for other in there if there[other]} or there.keys()
                earlier = self.owners.get((program.number, address), name)
                assert earlier == name or earlier not in rivals, f"`{name}` takes {address} from `{earlier}`"
                self.owners[program.number, address] = name
            for address in own - known:
                rivals = {other for other, is_there in where[address].items() if other != name}
                stranger = any(
                    address in record.addresses and not record.is_over and not record.host_network
                    for key, record in world.pods.items()
                    if not any(key in others for others in members.values())
                )
                assert rivals or stranger, f"{address} of `{name}` is not known"

    def _probes(self, program: FollowedProgram) -> None:
        """ADMs answer the probes of their own service's pods, of its ports, and no others."""
        world, selection = self.walk.world, program.selection
        for name, key in selection.keys.items():
            targets = {port.target for port in program.program.services[name].ports}
            expected = {
                probe.path
                for record in world.selected(key).values()
                for probe in record.probes
                if probe.port in targets
            }
            text = program.endpoints.probes.get(name, "")
            assert {probe.path for probe in probes_of(text).probes} == expected if text else not expected
        document = json.loads(self.walk.outputs.addresses.document)
        expected_names = {name for each in self.walk.state.published for name in each.endpoints.probes}
        assert document.get("probes", {}).keys() == expected_names

    def _document(self, listed: Mapping[int, Mapping[str, Any]]) -> None:
        """The first program that has a service decides about it."""
        expected: dict[str, Any] = {}
        for program in reversed(self.walk.state.published):
            for name in program.selection.keys:
                expected.pop(name, None)
            expected |= listed[program.number]
        assert _services(self.walk.outputs.addresses.document) == expected
        entries = self.walk.outputs.addresses.entries
        assert {name: json.loads(entry) for name, entry in entries.items() if entry} == expected

    # ---- facts ----

    def _facts(self, program: FollowedProgram) -> None:
        now, world = self.walk.now, self.walk.world
        held = from_json(program.facts_document)
        for name, key in program.selection.keys.items():
            pods = world.selected(key).values()
            shown = {
                "host_network": any(record.host_network for record in pods),
                "untrusted": any(record.untrusted for record in pods),
            }
            for fact, is_shown in shown.items():
                which = program.number, name, fact
                in_force = bool(name in held and getattr(held[name], fact))
                if is_shown:
                    assert in_force, f"`{name}` shows {fact}, and it does not count"
                    self.shown[which] = now + HOLD
                    self.unseen.pop(which, None)
                    continue
                if not in_force:
                    assert now >= self.shown.pop(which, 0.0), f"{fact} of `{name}` ended early"
                if not pods or not in_force:
                    self.unseen.pop(which, None)  # without pods, nothing shows that a fact is over
                else:
                    assert now < self.unseen.setdefault(which, now) + HOLD, f"{fact} of `{name}` never ends"

    # ---- programs ----

    def _in_force(self) -> None:
        """The services of each program in force are followed, under the names with which it was compiled."""
        state = self.walk.state
        for compiled in self.walk.compiled if self.walk.in_force.programs else ():
            number = state.number_in_force(compiled.program)
            assert number is not None
            assert state.followed[number].names == compiled.wanted.names, "a program in force has other Services"
            services = {name: service.namespace for name, service in compiled.program.services.items()}
            assert any(
                {name: key.namespace for name, key in program.selection.keys.items()} == services
                for program in state.published
            ), "a program in force is not followed"

    def _wanted(self) -> None:
        """The last good plan stays: only a candidate without errors replaces it."""
        before, after = self.before, self.walk.outputs
        if before is None or before.wanted is None:
            return
        assert after.wanted is not None, "the last good program is lost"
        if _what(after) == _what(before):
            return
        state = self.walk.state
        candidate = state.candidate
        assert candidate is not None
        assert candidate.read.content is not None
        assert (candidate.read.content.main, candidate.read.content.files) == after.wanted[:2]
        assert candidate.object.spec["mode"] == "Enforce", "a program that is audited is served"
        assert not any(finding.severity is Severity.ERROR for finding in mismatches(state, self.walk.view, OWN)), (
            "a program that does not fit replaces one that does"
        )

    # ---- clients, times ----

    def _clients(self) -> None:
        """A service that lost a pod has its clients checked; the uids of pods that are gone are known."""
        state, world = self.walk.state, self.walk.world
        members: Members = {}
        for program in state.followed.values():
            for name, key in program.selection.keys.items():
                members[program.number, name] = {record.uid: record.labels for record in world.selected(key).values()}
        for (number, name), now in members.items():
            earlier = self.members.get((number, name), {})
            if any(now.get(uid) != labels for uid, labels in earlier.items()):
                assert state.clients.get(name) != self.clients.get(name), f"the clients of `{name}` are not checked"
        uids = {key: record.uid for key, record in world.pods.items()}
        for key, uid in self.uids.items():
            assert uids.get(key) == uid or state.ended.has(uid)
        self.members, self.clients, self.uids = members, state.clients, uids

    def _deadline(self) -> None:
        walk = self.walk
        candidate = walk.state.candidate
        held = [held for program in walk.state.followed.values() for held in program.facts.held.values()]
        waits = candidate is not None and candidate.read.waits
        if (waits and walk.outputs.to_read is None) or any(fact.unseen_since is not None for fact in held):
            assert walk.deadline is not None, "nothing wakes the server"
            assert walk.deadline <= walk.now + HOLD + 1e-6

    def _read_again(self) -> None:
        """A Program whose ConfigMaps are late is read again."""
        walk, candidate = self.walk, self.walk.state.candidate
        if self.reading is not walk.reading:
            self.reading, self.read_at = walk.reading, walk.now
        if candidate is not None and candidate.read.waits and walk.now >= self.read_at + READ_AGAIN_SECONDS:
            assert walk.outputs.to_read is not None, "the ConfigMap that came late is never read"


def restarted(walk: Walk) -> None:
    """A server that begins with the stored state has the same outputs."""
    state, outputs = walk.state, walk.outputs
    if not walk.compiled or outputs.wanted != walk.compiled[0].wanted or walk.changes:
        return  # the newest plan is still being compiled
    other = walk.restart()
    Judge(other)
    candidate, again = state.candidate, other.state.candidate
    wanted = other.outputs.wanted
    assert wanted is not None
    if _what(other.outputs) != _what(outputs):
        # A Program that changed since, and fits.
        assert again is not None
        assert again.read.content is not None
        assert (again.read.content.main, again.read.content.files) == wanted[:2]
        return
    assert wanted.names == outputs.wanted.names
    worse = from_json(wanted.facts)
    for name, facts in from_json(outputs.wanted.facts).items():
        for field, value in facts._asdict().items():
            assert not value or (name in worse and getattr(worse[name], field)), "a fact is lost by the restart"
    if candidate == again and not _contested(walk):
        mine, others = (_services(made.addresses.document) for made in (outputs, other.outputs))
        for name in mine.keys() & others.keys():
            assert mine[name] == others[name]


# ---- definitions ----


def _services(document: bytes) -> dict[str, Any]:
    services: dict[str, Any] = json.loads(document)["services"]
    return services


def _one_owner(program: FollowedProgram, listed: Mapping[str, Any]) -> None:
    owners: dict[str, str] = {}
    on_host = {
        address
        for name in program.selection.keys
        for record in program.selection.pods(name).values()
        if record.host_network
        for address in record.addresses
    }
    for name, entry in listed.items():
        for address in entry["pods"]:
            if address not in on_host:
                assert owners.setdefault(address, name) == name, f"{address} is of `{owners[address]}` and `{name}`"


def _what(outputs: Outputs) -> Wanted | None:
    """What is compiled, whatever its facts."""
    return None if outputs.wanted is None else outputs.wanted._replace(facts=b"")


def _contested(walk: Walk) -> bool:
    """Whether two pods have one address: then its owner depends on what was first."""
    addresses = [address for record in walk.world.pods.values() for address in record.addresses]
    addresses += [address for record in walk.world.slices.values() for address in record.addresses]
    return len(addresses) != len(set(addresses))
