"""Which sides one decision may take: rules R3, R4, R5, R7, R8 and R10, each on its own.

Every check is told the decision that the rules ask for and the sides that the placement gives it, and says what is
wrong with those sides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain

from dsl.program import Policy, Program, Side
from solver.placement import Decision, Rule, Violation
from solver.verify.scope import Job, Neighbours, can_host, may_reject, tells_callers_apart, unrecognisable


class Sides:
    """The checks of one program."""

    def __init__(self, program: Program, neighbours: Neighbours) -> None:
        self.program = program
        self.near = neighbours
        self.pins: Mapping[tuple[str, str], list[Side]] = defaultdict(list)
        for pin in program.pins:
            self.pins[(pin.policy, pin.destination)].append(pin.side)
        self.suspicious = frozenset(
            service.name for service in program.services.values() if not service.trusted or service.host_network
        )
        self.hostless = frozenset(service.name for service in program.services.values() if not can_host(service))
        self.protocols = frozenset(call.port.protocol for call in program.calls)
        self.odd = frozenset(call.source for call in program.calls).difference(
            service.name for service in program.services.values() if can_host(service) and service.trusted
        )
        """Senders that need a closer look at egress."""
        self.tells_apart: dict[str, bool] = {}
        self.unrecognisable: dict[str, str | None] = {}
        self.shared_addresses = any(service.host_network for service in program.services.values())

    def check(self, job: Job, decision: Decision) -> Iterator[Violation]:
        """Everything wrong with `decision.sides` (each side of which is known to be there once)."""
        found = chain(
            self._capability(job, decision.sides),
            self._ingress(job) if Side.INGRESS in decision.sides else (),
            self._egress(job) if Side.EGRESS in decision.sides else (),
            self._pins(job, decision.sides),
            self._closing(job, decision),
        )
        for rule, message in found:
            yield Violation(rule, message, job.policy.name, job.destination)

    def _capability(self, job: Job, sides: tuple[Side, ...]) -> Iterator[tuple[Rule, str]]:
        policy, kind = job.policy, job.policy.kind
        for side in sides:
            if side not in kind.sides:
                yield Rule.CAPABILITY, f"kind `{kind.name}` cannot be enforced at {side}"
            elif side not in policy.sides:
                yield Rule.CAPABILITY, f"`{policy.name}` is narrowed to the other side than {side}"
        if self.protocols <= kind.protocols:
            return
        calls = self.program.calls
        for index in job.calls:
            protocol = calls[index].port.protocol
            if protocol not in kind.protocols:
                call = calls[index]
                yield (
                    Rule.CAPABILITY,
                    f"a `{protocol}` call (`{call.source} -> {call.destination}`) cannot carry kind `{kind.name}`",
                )

    def _ingress(self, job: Job) -> Iterator[tuple[Rule, str]]:
        there = job.destination
        if there in self.program.externals:
            yield Rule.OUTSIDE, f"`{there}` is external and has no ingress"
        elif there not in self.program.services:
            yield Rule.COVERAGE, f"`{there}` is no service"
        elif there in self.hostless:
            yield Rule.HOST, f"`{there}` cannot host an ADM"
        stranger = self.near.node_sender.get(there)
        if stranger is not None and self._tells_apart(job.policy):
            yield (
                Rule.CLOSED,
                f"`{job.policy.name}` tells callers apart, and `{stranger}` may come from its node's address",
            )
        if job.policy.kind.guard and not job.policy.open_sources and there in job.policy.sources:
            yield Rule.CLOSED, f"`{job.policy.name}` judges calls of `{there}` to itself, which may come from its node"
        named = self._unrecognisable(job.policy)
        if named is not None:
            yield Rule.CLOSED, f"`{job.policy.name}` names `{named}`, which shares the address of its node"

    def _egress(self, job: Job) -> Iterator[tuple[Rule, str]]:
        policy, there, kind = job.policy, job.destination, job.policy.kind
        for sender in sorted(self.odd.intersection(job.senders)):
            if sender in self.program.externals:
                yield Rule.OUTSIDE, f"`{sender}` is external and has no egress"
            elif sender not in self.program.services:
                yield Rule.COVERAGE, f"`{sender}` is no service"
            elif sender in self.hostless:
                yield Rule.HOST, f"`{sender}` cannot host an ADM"
            if sender in self.suspicious and (kind.guard or may_reject(policy)):
                yield Rule.CLOSED, f"`{sender}` cannot be relied on to pass its own ADM"
        inner = self.near.inner_calls.get(there)
        if inner is not None:
            for sender in sorted(inner.intersection(job.senders)):
                yield (
                    Rule.CAPABILITY,
                    f"the ADM of `{sender}` calls `{there}` itself for another policy, behind its filters",
                )
        if kind.per_replica:
            yield Rule.STATE, f"`{policy.name}` is stated for each replica of `{there}`"
        if kind.state and len(job.senders) > 1:
            yield Rule.STATE, f"`{policy.name}` counts {len(job.senders)} senders together"
        if job.open and there not in self.program.externals:
            why = self.near.unclosable.get(there)
            if why is not None:
                yield Rule.CLOSED, f"`{there}` cannot be closed: {why}"
            if kind.guard and not job.calls:
                yield Rule.CLOSED, f"guard `{policy.name}` matches no declared call and has to stand at ingress"

    def _pins(self, job: Job, sides: tuple[Side, ...]) -> Iterator[tuple[Rule, str]]:
        for side in self.pins.get((job.policy.name, job.destination), ()):
            if side not in sides:
                yield Rule.PIN, f"`{job.policy.name}` is pinned at {side}"

    def _closing(self, job: Job, decision: Decision) -> Iterator[tuple[Rule, str]]:
        needed = job.open and Side.EGRESS in decision.sides and job.destination not in self.program.externals
        if needed and not decision.closes:
            yield Rule.CLOSED, f"`{job.policy.name}` holds only if `{job.destination}` is closed, and does not say so"
        if decision.closes and not needed:
            yield Rule.CLOSED, f"`{job.policy.name}` does not need `{job.destination}` closed, and says so"

    def _tells_apart(self, policy: Policy) -> bool:
        if policy.name not in self.tells_apart:
            self.tells_apart[policy.name] = tells_callers_apart(self.program, policy)
        return self.tells_apart[policy.name]

    def _unrecognisable(self, policy: Policy) -> str | None:
        if not self.shared_addresses:
            return None
        if policy.name not in self.unrecognisable:
            self.unrecognisable[policy.name] = unrecognisable(self.program, policy)
        return self.unrecognisable[policy.name]
