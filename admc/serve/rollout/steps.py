"""The steps from one plan to another.

    old, new, key -> {StepName: Step}

A port that moves goes through the steps of `schedule`. A port at which one end changes is swapped with the filter
chains of that end: in `prepare`, or, where that must not be before other ports have moved (`own_requests`), with the
new plan at the end.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Final

from admc.serve.rollout.captures import captures_of
from admc.serve.rollout.diff import Diff, version
from admc.serve.rollout.model import HopPart, Placed, Plan, Step, StepName
from admc.serve.rollout.own_requests import late_destinations
from admc.serve.rollout.reasons import reasons
from admc.serve.rollout.refusals import marker_meaning
from admc.serve.rollout.schedule import overlay
from emitters.envoy.names import filter_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from admc.serve.rollout.enforcement import HopKey


BEFORE: Final = (StepName.PREPARE, StepName.SENDERS)
"""The steps before receivers enforce the new plan."""


def steps(old: Placed, new: Placed, key: bytes) -> Mapping[StepName, Step]:
    """The steps from one plan to another. `key` is secret: the markers are derived from it.

    Raises `EmitError` (ADM855) where no step is safe.
    """
    found = _Steps(Diff(old, new), key)
    return {name: found.step(name) for name in StepName}


class _Steps:
    def __init__(self, diff: Diff, key: bytes) -> None:
        self._diff = diff
        self._marked = {port: marker_meaning(diff, port) for port in sorted(diff.moving)}
        self._late = late_destinations(diff)
        ends = ":".join(version(placed) for placed in diff.frame.plans)
        self._secrets = {port[0]: _secret(key, ends, port[0]) for port in self._marked}
        self._parts: dict[str, list[tuple[HopKey, HopPart]]] = {}
        for each in diff.frame.keys:
            part = self._part(each)
            if part is not None:
                self._parts.setdefault(each.service, []).append((each, part))

    def step(self, name: StepName) -> Step:
        diff = self._diff
        old, new = diff.frame.plans
        closed, closes = (frozenset(each.placement.closed) for each in (old, new))
        prepares, releases = name is StepName.PREPARE, name is StepName.RELEASE
        after = diff.frame.hops[1]
        coming = (after[key] for key in diff.changed if key.port in diff.moving and key in after)
        return Step(
            name,
            old,
            new,
            diff.frame.merged,
            {service: tuple(part for _, part in self._parts[service]) for service in sorted(self._parts)},
            {
                (key.service, part.hop.name): overlay(
                    self._marked[key.port], key.side, name, self._secrets[key.destination]
                )
                for parts in self._parts.values()
                for key, part in parts
                if key.port in self._marked and part.hop.carries_requests
            },
            services=diff.concerned,
            needs_redirection=captures_of(coming) if prepares else {},
            closes=tuple(sorted(closes - closed)) if prepares else (),
            opens=tuple(sorted(closed - closes)) if releases else (),
            relies_on=tuple(sorted(closes - closed if name in BEFORE else closed - closes)),
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
        return HopPart(frame.union(key), None, steady, not self._diff.same(key, arguments=False))


def _secret(key: bytes, ends: str, destination: str) -> str:
    """A value that only ADMs get. Another rollout, or another destination, has another."""
    return hmac.new(key, f"{ends}\0{destination}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()
