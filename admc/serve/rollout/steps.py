"""Builds the steps from one plan to another.

    old, new, key -> {StepName: Step}

A port that moves goes through the steps of `schedule`. A port at which only one end changes gets the new filter chains
of that end in `prepare`; or, if other ports have to move first (`own_requests`), when the new plan is published.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from admc.serve.rollout.captures import captures_of
from admc.serve.rollout.diff import Diff, version
from admc.serve.rollout.model import HopPart, Placed, Plan, Step, StepName
from admc.serve.rollout.network import closings, relied_on
from admc.serve.rollout.own_requests import late_destinations
from admc.serve.rollout.refusals import marker_meaning
from admc.serve.rollout.schedule import overlay
from dsl.program import Side
from emitters.envoy.names import filter_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from admc.serve.rollout.enforcement import HopKey
    from admc.serve.rollout.model import Port


BEFORE: Final = (StepName.PREPARE, StepName.SENDERS)
"""The steps before receivers enforce the new plan."""


def steps(old: Placed, new: Placed, key: bytes) -> Mapping[StepName, Step]:
    """The steps from one plan to another. `key` is secret: the markers are derived from it.

    Raises `EmitError` (ADM855) where no step is safe.
    """
    all_steps = _Steps(Diff(old, new), key)
    return {name: all_steps.step(name) for name in StepName}


class _Steps:
    def __init__(self, diff: Diff, key: bytes) -> None:
        self._diff = diff
        old, new = diff.frame.plans
        self._closes, self._opens = closings(old, new), closings(new, old)
        self._coming, self._going = relied_on(old, new, diff.moving), relied_on(new, old, diff.moving)
        self._marked = {port: marker_meaning(diff, port) for port in sorted(diff.moving)}
        self._received = frozenset(key.port for key in diff.frame.keys if key.side is Side.INGRESS)
        self._late = late_destinations(diff)
        ends = ":".join(version(placed) for placed in diff.frame.plans)
        self._secrets = {port[0]: _secret(key, ends, port[0]) for port in self._marked}
        self._parts: dict[str, list[tuple[HopKey, HopPart]]] = {}
        for hop_key in diff.frame.keys:
            part = self._part(hop_key)
            if part is not None:
                self._parts.setdefault(hop_key.service, []).append((hop_key, part))

    def step(self, name: StepName) -> Step:
        diff = self._diff
        old, new = diff.frame.plans
        prepares, releases = name is StepName.PREPARE, name is StepName.RELEASE
        after = diff.frame.hops[1]
        moved = (after[key] for key in diff.changed if key.port in diff.moving and key in after)
        return Step(
            name,
            old,
            new,
            diff.frame.merged,
            {service: tuple(part for _, part in self._parts[service]) for service in sorted(self._parts)},
            {
                (key.service, part.hop.name): overlay(
                    self._marked[key.port],
                    key.side,
                    name,
                    self._secrets[key.destination],
                    received=key.port in self._received,
                )
                for parts in self._parts.values()
                for key, part in parts
                if key.port in self._marked and part.hop.carries_requests
            },
            services=diff.concerned,
            needs_redirection=captures_of(moved) if prepares else {},
            closes=self._closes if prepares else (),
            opens=self._opens if releases else (),
            relies_on=self._coming if name in BEFORE else self._going,
            reasons=reasons(diff, self._late) if prepares else (),
            secrets=frozenset(self._secrets.values()),
        )

    def _part(self, key: HopKey) -> HopPart | None:
        """None: the ADM has no filter chain for a hop."""
        frame = self._diff.frame
        if key.port not in self._diff.moving:
            plan = Plan.OLD if key.destination in self._late else Plan.NEW
            hop = frame.hops[plan is Plan.NEW].get(key)
            return None if hop is None else HopPart(hop, plan)
        steady = frozenset(filter_name("", policy) for policy in frame.steady_guards(key))
        return HopPart(frame.union(key), None, steady, self._diff.differs(key))


def _secret(key: bytes, ends: str, destination: str) -> str:
    """A value that only ADMs get. Another rollout, or another destination, has another."""
    return hmac.new(key, f"{ends}\0{destination}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def reasons(diff: Diff, late: Iterable[str]) -> tuple[str, ...]:
    """Sentences about all steps, in canonical order. `late`: destinations that change with the new plan only."""
    sentences = [
        sentence
        for port in sorted(diff.moving)
        for sentence in (
            *_moves(diff, port, Side.INGRESS),
            *_moves(diff, port, Side.EGRESS),
            *_network_moves(diff, port),
            *_stays(diff, port),
        )
    ]
    sentences += [
        f"policies of calls to `{name}` change with the new plan: ADMs begin to send requests of their own for them"
        for name in sorted(late)
    ]
    return tuple(dict.fromkeys(sentences))


def _moves(diff: Diff, port: Port, left: Side) -> Iterator[str]:
    for pair in diff.pairs(port, left):
        if pair.old.name != pair.new.name:
            continue
        name = pair.new.name
        yield f"`{name}` moves from {_where(left, port[0])} to {_where(left.other, port[0])}"
        if pair.new.kind.state:
            yield (
                f"`{name}` starts with a full bucket at its new side: what one bucket has counted cannot be handed to "
                "another"
            )
        if not diff.carries_requests(port) and not pair.new.kind.guard:
            yield (
                f"connections to `{port[0]}` that are made while both sides hold `{name}` meet it twice: no marker can "
                "say that they have met it"
            )


def _network_moves(diff: Diff, port: Port) -> Iterator[str]:
    """Guards that leave ADMs to the network, or come from there."""
    for plan, words in enumerate(("moves from the network to {}", "moves from {} to the network")):
        for name in diff.frame.in_network[plan].get(port, {}):
            for side in Side:
                keys = (key for key in diff.ends(port) if key.side is side)
                if any(policy.name == name for key in keys for policy in diff.frame.policies(1 - plan, key)):
                    yield f"`{name}` {words.format(_where(side, port[0]))}"


def _stays(diff: Diff, port: Port) -> Iterator[str]:
    """Limits that stay where they are, in chains that change."""
    for key in diff.ends(port) if diff.carries_requests(port) else ():
        before = {policy.name for policy in diff.frame.policies(0, key)}
        for policy in diff.frame.policies(1, key):
            if policy.kind.state and policy.name in before:
                yield f"`{policy.name}` has a second bucket while policies move at {_where(key.side, port[0])}"


def _where(side: Side, destination: str) -> str:
    return f"the ingress of `{destination}`" if side is Side.INGRESS else f"the egress of all that call `{destination}`"
