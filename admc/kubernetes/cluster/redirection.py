"""The redirection of pods, read from their specs: it was set when they started, and cannot change.

captures of a plan, pods of a service -> pods that lack some
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.serve.rollout.captures import captures
from emitters.interception.pod import PodCaptures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from admc.kubernetes.cluster.records import Pod
    from admc.serve.rollout.model import Placed, Step
    from emitters.addresses import Addresses

SHOWN: Final = 3
_CAPTURE: Final = re.compile(r"(ingress|egress)/(?:.*:)?([0-9]+) at ([0-9]+)")


class Lacking(NamedTuple):
    """Pods of a service without redirection that the plan needs."""

    pods: tuple[str, ...]
    """Names, sorted."""
    of: int
    """How many pods the service has."""


@lru_cache(maxsize=1 << 14)
def ports_of(names: frozenset[str]) -> PodCaptures:
    """Return what a pod has to capture for captures of a plan (`admc.serve.rollout.captures`). Cached, because the
    status asks every second."""
    ingress: set[int] = set()
    egress: set[int] = set()
    for name in names:
        capture = _CAPTURE.fullmatch(name)
        assert capture is not None, name  # noqa: S101 - `captures_of` writes them
        side, number, target = capture.groups()
        if side == "ingress":
            ingress.add(int(target))
        else:
            egress.update((int(number), int(target)))
    return PodCaptures(frozenset(ingress), frozenset(egress))


def lacking(names: frozenset[str], service: str, pods: Iterable[Pod]) -> Lacking:
    """Return the pods of a service (`APP/SERVICE` in their rules) that do not redirect all of these captures."""
    needed = ports_of(names)
    unredirected, count = [], 0
    for pod in pods:
        count += 1
        if not redirects(pod, service, needed):
            unredirected.append(pod.key.name)
    return Lacking(tuple(sorted(unredirected)), count)


def redirects(pod: Pod, service: str, needed: PodCaptures) -> bool:
    """Whether a pod has the ADM of a service (`APP/SERVICE`), and redirects these ports. A pod without an address has
    not started any container, so its spec alone decides."""
    return pod.service == service and pod.captures.covers(needed) and (pod.is_redirected or not pod.addresses)


class PodRedirection:
    """`admc.serve.environment.Redirection`. It requests and stores nothing, because pods show their redirection."""

    def __init__(self, pods_of: Callable[[str], Iterable[Pod]], hosting: Callable[[str], Iterable[Pod]]) -> None:
        """`pods_of` returns the pods of a service that exist and are not over. `hosting` returns the pods that may have
        the ADM of a service: those of the service; if its Service is absent, all pods of its namespace with this
        ADM."""
        self._pods_of = pods_of
        self._hosting = hosting
        self._app = ""
        self._asked: Placed | None = None
        self._needed: Mapping[str, frozenset[str]] = {}

    @property
    def lacking(self) -> dict[str, Lacking]:
        """Service -> its pods without redirection that the plan needs which `ask` or `begin` named last."""
        by_service = {name: self._of(self._app, name, names) for name, names in self._needed.items()}
        return {name: lacking_pods for name, lacking_pods in by_service.items() if lacking_pods.pods}

    @property
    def text(self) -> str:
        by_service = self.lacking
        if not by_service:
            return ""
        counts = [
            f"`{name}` ({len(lacking_pods.pods)} of {lacking_pods.of} pods)"
            for name, lacking_pods in sorted(by_service.items())
        ]
        more = f" and {len(counts) - SHOWN} more services" if counts[SHOWN:] else ""
        return (
            f"redirection is missing at {', '.join(counts[:SHOWN])}{more}: no request through these pods meets the "
            "policies that need it; pass their manifests through `admc inject`, and replace the pods"
        )

    def load_record(self) -> None:
        """Nothing is stored."""

    def resume(self) -> None:
        """Nothing is stored."""

    def begin(self, old: Placed | None) -> None:
        """Pods show their redirection, so nothing is confirmed here."""
        if old is not None:
            self._need(old)

    def ask(self, placed: Placed, addresses: Addresses) -> None:
        """`addresses` do not matter: captures are by port."""
        if self._asked is None or not _is_same(self._asked, placed):
            self._need(placed)

    def _need(self, placed: Placed) -> None:
        self._asked, self._app, self._needed = placed, placed.program.app, captures(placed)

    def confirm(self) -> None:
        """Pods show their redirection."""

    def keep(self) -> bool:
        return False

    def missing(self, step: Step) -> tuple[str, ...]:
        app = step.new.program.app
        needed = sorted(step.needs_redirection.items())
        return tuple(name for name, names in needed if self._of(app, name, names).pods)

    def proxies(self, service: str) -> frozenset[str]:
        """Return the pods with an ADM of the service. A pod whose rules are not loaded yet runs neither Envoy nor a
        container of its own, so it does not count. A pod that terminates counts, since it may still send requests. The
        app may have another name by now."""
        return frozenset(pod.key.name for pod in self._hosting(service) if pod.hosts == service and pod.is_redirected)

    def _of(self, app: str, service: str, names: frozenset[str]) -> Lacking:
        return lacking(names, f"{app}/{service}", self._pods_of(service))


def _is_same(one: Placed, other: Placed) -> bool:
    """Whether these are the same objects: to compare programs takes long."""
    return one.program is other.program and one.placement is other.placement
