"""Decides when a waiting pod may start: once the ADMs that need its addresses have them. Proxies that are not connected
are waited for during `AWAY_SECONDS` only, and so is a Service that selects the pod.

    token --Pods--> pod --published addresses, acknowledged snapshots--> reasons to wait; without any, the pod starts

The addresses of a pod come from the server's own records, by the pod of the token. The server waits until the published
addresses contain them. From that moment each snapshot has them. So a proxy has them once it has acknowledged the
snapshot that was the latest at that moment, or a later one.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from emitters.addresses import Addresses
    from xds_server.transport.server import XdsServer

SETTLE_SECONDS: Final = 1.0
"""How long a pod waits after the last acknowledgement. The main thread of a proxy acknowledges; its workers apply the
configuration within this time."""
AWAY_SECONDS: Final = 35.0
"""How long a pod waits for proxies that should be connected and are not. A proxy that lost its server tries again after
30 s at most; one that does not come back by then may be gone, with its pod still listed."""
NAMED: Final = 5
"""How many reasons are named; the others are counted."""


class WaitingPod(NamedTuple):
    """A pod in the server's records."""

    uid: str
    service: str
    """Empty if no Service of the program selects the pod."""
    addresses: tuple[str, ...]


class Proxy(NamedTuple):
    """A connected proxy."""

    node: str
    has: int
    """The number of the last snapshot of which the proxy has acknowledged every part; 0 before the first one."""
    refuses: bool


class Adm(NamedTuple):
    """The ADM of a service, in all of its pods."""

    published: int
    """The number of its latest snapshot; 0 before the first one."""
    proxies: tuple[Proxy, ...]
    away: int
    """How many proxies should be connected and are not."""

    @property
    def lowest(self) -> int:
        return min((proxy.has for proxy in self.proxies), default=self.published)


class ServerView(NamedTuple):
    """What the server has published, and what proxies have acknowledged, at one moment."""

    listed: Mapping[str, Collection[str]]
    """Service -> the addresses of its pods that are published, in canonical form."""
    needed: Mapping[str, frozenset[str]]
    """Service -> the services whose ADMs need the addresses of its pods, in any plan that proxies may have."""
    adms: Mapping[str, Adm]
    """Service -> its ADM, at least for the services in `needed`."""


class Memory(NamedTuple):
    """The state of a waiting pod between two checks. Times are of a monotonic clock."""

    began: float  # when the pod began to wait
    included: Mapping[str, int] | None = None
    """Service -> the number of its latest snapshot when the pod's addresses were published; None while they are not."""
    acknowledged: float | None = None
    """Since when the pod waits only for the workers of proxies; None if it waits for more."""


class Decision(NamedTuple):
    waits: tuple[str, ...]
    """The reasons to wait, as sentences. Without a reason, the pod may start."""
    memory: Memory


def decide(pod: WaitingPod, seen: ServerView | None, memory: Memory, now: float) -> Decision:
    """Decide what a pod has to wait for. `seen` is None while the server has no plan."""
    if seen is None:
        return Decision(("the server has no plan yet",), memory._replace(included=None, acknowledged=None))
    patient = now < memory.began + AWAY_SECONDS
    if not pod.service:
        # Its Service may follow in a moment: one `kubectl apply` creates both.
        return Decision(("no Service of the program selects this pod",) if patient else (), memory)
    needed = seen.needed.get(pod.service, frozenset())
    if not needed:
        return Decision((), memory)
    missing = _not_listed(pod, seen)
    if missing:
        return Decision(missing, memory._replace(included=None, acknowledged=None))
    included = dict(memory.included or {})
    for name in needed - included.keys():
        included[name] = seen.adms[name].published
    waits = tuple(
        sentence for name in sorted(needed) for sentence in _behind(name, seen.adms[name], included[name], patient)
    )
    if waits:
        return Decision(waits, memory._replace(included=included, acknowledged=None))
    memory = memory._replace(
        included=included, acknowledged=now if memory.acknowledged is None else memory.acknowledged
    )
    assert memory.acknowledged is not None  # noqa: S101 - just set
    if now < memory.acknowledged + SETTLE_SECONDS:
        return Decision(("all proxies have acknowledged it, and apply it",), memory)
    return Decision((), memory)


def _not_listed(pod: WaitingPod, seen: ServerView) -> tuple[str, ...]:
    if not pod.addresses:
        return ("the pod has no address yet",)
    listed = seen.listed.get(pod.service, ())
    return tuple(
        f"the address {address} is not published yet" for address in pod.addresses if canonical(address) not in listed
    )


def _behind(name: str, adm: Adm, included: int, patient: bool) -> Iterator[str]:
    """Yield the reasons why the ADM of a service does not have the snapshot with the number `included`."""
    if adm.published == 0:
        yield f"`{name}` has no configuration yet"
        return
    if adm.lowest < included:
        for proxy in sorted(adm.proxies):
            if proxy.has < included:
                why = "refuses its configuration" if proxy.refuses else "has not acknowledged it"
                yield f"proxy {proxy.node} of `{name}` {why}"
    if adm.away and patient:
        yield f"{adm.away} {'proxy' if adm.away == 1 else 'proxies'} of `{name}` not connected"


def line(waits: Collection[str]) -> str:
    """Return the reasons to wait in one line."""
    named = "; ".join(list(waits)[:NAMED])
    return f"waits: {named}{f'; and {len(waits) - NAMED} more' if len(waits) > NAMED else ''}"


def canonical(address: str) -> str:
    return str(ipaddress.ip_address(address))


def listed(addresses: Addresses, services: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the published addresses of pods by service, also of services that only an earlier plan of an unfinished
    rollout has."""
    by_service = {name: addresses.services.get(name) or addresses.others.get(name) for name in services}
    return {
        name: frozenset() if located is None else frozenset(map(canonical, located.pods))
        for name, located in by_service.items()
    }


def adm(server: XdsServer, service: str, expected: int) -> Adm:
    """Return the ADM of a service. `expected` is how many of its proxies should be connected."""
    store = server.store
    proxies = tuple(
        Proxy(stream.node.id, 0 if (has := stream.completed) is None else store.number(service, has), stream.refuses)
        for stream in server.registry.of(service)
    )
    return Adm(store.published(service), proxies, max(0, expected - len({proxy.node for proxy in proxies})))
