"""A bed of pods whose programs may leave a guard to NetworkPolicies, with callers that no program admits.

A *stranger* is a pod of a service without a declared call. Some of its callers keep their connections open, others dial
anew for each request. None of its requests may arrive.
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.serve.server_process import ADMC
from tests.serve.traffic.judge import Cut, Verdict, judge
from tests.serve.traffic.network_plugin import NetworkPlugin
from tests.serve.traffic.network_programs import NETWORK_ASPECTS, NetworkVariant
from tests.serve.traffic.pod_bed import PORT, SENDERS, PodBed, text
from tests.testbed.callers import RequestSpec
from tests.testbed.network_policies import matches

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.serve.traffic.programs import Variant
    from tests.testbed.callers import Caller

TILL, STRANGER = "till/0", "rogue/0"
NO_WAIT = (str(Path(__file__).with_name("server_without_wait.py")),)
"""Runs a server that begins moves before their NetworkPolicies are in force."""
SLOWEST_SECONDS = 5.0
"""The longest time from a request of the server until the plugin applies it."""
LATER_SECONDS = SLOWEST_SECONDS + 15.0
"""A NetworkPolicy may be in force for so long after the last program that needs it: older connections close first."""
SYN_RETRIES = 1
"""A pod gives a connection up after 3 s. By default the kernel tries for two minutes."""
GIVEN_UP_SECONDS = 4.0
STRANGER_DIAL_SECONDS = 1.0
IDLE_SECONDS = 1.5


class NetworkBed(PodBed):
    """`variant` is a `NetworkVariant`. NetworkPolicies are applied while `plugin` runs."""

    senders = (*SENDERS, TILL)
    strangers = (STRANGER,)

    def __init__(
        self,
        folder: Path,
        pods: tuple[str, ...],
        *,
        delay: Callable[[], float] = lambda: 0.0,
        pause: float = 0.1,
        entry: tuple[str, ...] = ADMC,
    ) -> None:
        """`delay` is that of the plugin."""
        super().__init__(folder, pods, first=NetworkVariant(), pause=pause, entry=entry)
        self._delay = delay

    def _text(self, variant: Variant) -> str:
        assert isinstance(variant, NetworkVariant)
        return text(variant, variant.more(PORT))

    def _begin(self) -> None:
        for pod in self.senders:
            self.mesh.run(pod, "tee", "/proc/sys/net/ipv4/tcp_syn_retries", text=str(SYN_RETRIES))
        self.plugin = NetworkPlugin(self.mesh, self.folder / "kept", self._delay)

    def _waits_for(self, source: str) -> bool:
        dropped = isinstance(self.variant, NetworkVariant) and self.variant.drops_till
        return super()._waits_for(source) and not (source == TILL and dropped)

    def _made(self, source: str, destination: str) -> list[Caller]:
        plain = (RequestSpec(source.partition("/")[0], "cart"),)
        if source == TILL:
            return [self._caller(source, destination, plain, keep=keep) for keep in (True, False)]
        if source == STRANGER:
            return [
                self._caller(source, destination, plain, keep=keep, pause=pause, timeout=STRANGER_DIAL_SECONDS)
                for keep, pause in ((True, self._pause), (True, IDLE_SECONDS), (False, self._pause))
            ]
        return super()._made(source, destination)

    def verdict(self) -> Verdict:
        own = [request for caller in self.callers for request in caller.made]
        strange = [request for request in own if request.spec.source == "rogue"]
        made = [request for request in own if request.spec.source != "rogue"]
        dropped = self._dropped()
        ends = frozenset({TILL})
        self.timeline.cuts += [Cut(ends, began, ended + GIVEN_UP_SECONDS, 503) for began, ended in dropped]
        seen = [each.seen for each in self.mesh.arrivals()]
        verdict = judge(self.timeline, made, seen, aspects=NETWORK_ASPECTS, strangers=strange)
        verdict.failed += [
            f"{began:.3f} to {ended:.3f}: a NetworkPolicy refuses `till`, and no program of the time does"
            for began, ended in dropped
            if not self._is_wanted(began, ended)
        ]
        return verdict

    def _dropped(self) -> list[tuple[float, float]]:
        """When NetworkPolicies refused new connections of `till`."""
        history = self.plugin.history
        ended = (*(each.whole for each in history[1:]), time.monotonic())
        return [(it.began, end) for it, end in zip(history, ended, strict=False) if not _all_admit_till(it.policies)]

    def _is_wanted(self, began: float, ended: float) -> bool:
        """Whether programs that refuse `till` in the network were in force for all of that time."""
        for span in self.timeline.spans:
            assert isinstance(span.variant, NetworkVariant)
            if span.variant.drops_till and span.began <= began <= span.ended + LATER_SECONDS:
                began = span.ended + LATER_SECONDS
        return began >= ended


def _all_admit_till(policies: tuple[Mapping[str, Any], ...]) -> bool:
    return all(
        any(
            matches(peer.get("podSelector"), {"app": "till"})
            for rule in policy["spec"]["ingress"]
            for peer in rule.get("from", ())
        )
        for policy in policies
    )


def random_delay(seed: int) -> Callable[[], float]:
    """Delays of a plugin."""
    choose = random.Random(seed)  # noqa: S311 - a test
    return lambda: choose.uniform(0.0, SLOWEST_SECONDS)
