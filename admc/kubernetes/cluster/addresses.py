"""The addresses of a program's services, in the form of an endpoints file (docs/endpoints.md).

    Selection --changes--> the document, as bytes: the same content, the same bytes

The document lists a service once its addresses are *known*, even if it has none. Until then, ADMs refuse the
connections that may be those of the service and would pass without its policies. The document does not list a service

- whose Service is absent or a name outside of the cluster: no object shows which pods belong to it. If it were listed
  without pods, a request of such a pod would count as that of an unknown caller, and meet no policy about the service;
- that shares its Service or a pod with another service: a pod has the ADM of one service, and an address has one owner;
- that has a pod on the host's network, until the plan in force takes that into account: the address of such a pod is
  that of the whole node.

A service whose Service selects no pod is listed with the addresses of the Service and without pods. None of its pods
can send a request, and a new pod is in the document before it sends its first one (docs/cluster/addresses.md).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity
from emitters.addresses import network
from emitters.addresses.model import order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from admc.kubernetes.cluster.records import Key, Slice
    from admc.kubernetes.cluster.selection import Selection

UNLISTED: Final = b""
STRANGER: Final = ""
"""Stands for the owner of an address whose pod belongs to no service of the program."""


class Endpoints:
    """The document, kept up to date: `update` takes the names that `Selection` returns for a change. A change of a
    service costs as much as the service has pods: the document is joined from one entry for each service.

    The document is complete only once all watches have listed their objects.
    """

    def __init__(self, selection: Selection, at: Callable[[str], Mapping[Key, bool]] = lambda address: {}) -> None:
        """`at` returns the pods of the whole cluster with an address, each with whether it stays: it does not
        terminate."""
        self._selection = selection
        self._at = at
        self._moved: set[str] = set()
        """Addresses that pods have taken or left since the last rendering."""
        self._entries: dict[str, bytes] = {}
        self._stale: set[str] = set(selection.keys)
        self._claims: dict[str, dict[str, bool]] = {}
        """Address -> the services with a pod there, each with whether one of these pods stays (does not terminate)."""
        self._claimed: dict[str, dict[str, bool]] = {}
        """Service -> the addresses of its pods, each with the same flag."""
        self._owners: dict[str, str] = {}
        """Address -> the service that owns it; `STRANGER` if the pod there belongs to no service."""
        self._listed = dict.fromkeys(sorted(selection.keys), b"")
        """Service -> its part of the document, in the order of names; empty if the service is not listed."""
        self._document: bytes | None = None

    def update(self, names: Iterable[str]) -> None:
        self._stale.update(names)

    def moved(self, addresses: Iterable[str]) -> bool:
        """Note that pods took or left these addresses. Returns whether that can change the document: an address of a
        service may belong to a pod of no service by now."""
        claimed = self._claims.keys() & set(addresses)
        self._moved |= claimed
        return bool(claimed)

    def document(self) -> bytes:
        self._render()
        if self._document is None:
            self._document = b'{"services":{%b}}' % b",".join(filter(None, self._listed.values()))
        return self._document

    def entries(self) -> dict[str, bytes]:
        """Return the entry of each listed service."""
        self._render()
        return {name: entry for name, entry in self._entries.items() if entry}

    def unlisted(self) -> tuple[str, ...]:
        """The services whose addresses are not known."""
        self._render()
        return tuple(sorted(name for name, entry in self._entries.items() if entry == UNLISTED))

    def findings(self) -> tuple[Diagnostic, ...]:
        """Return one finding for each pair of services that have pods at one address whose owner is not known."""
        self._render()
        pairs: dict[tuple[str, ...], str] = {}
        for address, claims in self._claims.items():
            if address in self._owners:
                continue
            shared = {other for name in claims for other in self._selection.shared_with(name)}
            if not shared.intersection(claims):
                pair = tuple(sorted(claims)[:2])
                pairs[pair] = min(address, pairs.get(pair, address))
        return tuple(self._contested(pair, address) for pair, address in sorted(pairs.items()))

    def _contested(self, pair: tuple[str, ...], address: str) -> Diagnostic:
        one, other = (self._selection.program.services[name] for name in pair)
        return Diagnostic(
            "ADM942",
            Severity.WARNING,
            f"`{one.name}` and `{other.name}` have pods with the address {address}",
            one.span,
            cause="one of the pods has another address by now, or is gone; connections that may be those of either "
            "service are refused meanwhile",
            hint="it ends when the node reports its pods; delete the pod of a node that is lost",
            related=(Related(other.span, f"`{other.name}` is here"),),
        )

    # ---- entries ----

    def _render(self) -> None:
        stale, self._stale = self._stale, set()
        changed = {address for name in stale for address in self._claim(name)}
        moved, self._moved = self._moved & self._claims.keys(), set()
        for address in changed | moved:
            stale.update(self._claims[address])
            self._settle(address, self._claims[address])
        for name in stale:
            entry = self._entry(name)
            if self._entries.get(name) != entry:
                self._entries[name] = entry
                # A name of the language needs no escape in JSON.
                self._listed[name] = b'"%b":%b' % (name.encode(), entry) if entry else b""
                self._document = None

    def _entry(self, name: str) -> bytes:
        selection = self._selection
        service = selection.service(name)
        if service is None or service.external_name or selection.shared_with(name):
            return UNLISTED
        if selection.surprises_by_host_network(name):
            return UNLISTED
        if any(address not in self._owners for address in self._claimed.get(name, ())):
            return UNLISTED
        ready = _ready(selection, name)
        pods = _ordered(address for address in ready if self._owners.get(address, name) == name)
        entry: dict[str, list[str]] = {"addresses": _ordered(service.addresses), "pods": pods}
        if unready := [address for address in pods if not ready[address]]:
            entry["unready"] = unready
        return json.dumps(entry, separators=(",", ":")).encode()

    # ---- one address, two pods ----

    def _claim(self, name: str) -> Iterator[str]:
        """Note at which addresses a service has pods of its own, and yield the addresses where that changed."""
        before = self._claimed.pop(name, {})
        now = _present(self._selection, name)
        if now:
            self._claimed[name] = now
        for address in before.keys() | now.keys():
            if before.get(address) != now.get(address):
                claims = self._claims.setdefault(address, {})
                claims.pop(name, None)
                if address in now:
                    claims[name] = now[address]
                yield address

    def _settle(self, address: str, claims: Mapping[str, bool]) -> None:
        """Decide which service owns an address. While an address passes from one pod to another, the records of both
        may have it.

        A pod that stays wins over a pod that terminates. Between equal pods, the service that owned the address keeps
        it, and the pod of the other service waits until the older record is corrected. Without an earlier owner, as
        after a restart of the server, nothing shows which record is older, so the address has no owner.
        """
        rivals = [name for name, stays in claims.items() if stays] or list(claims)
        owner = self._owners.pop(address, None)
        if not rivals:
            del self._claims[address]
        elif not any(claims.values()) and self._is_strangers(address, claims):
            self._owners[address] = STRANGER
        elif len(rivals) == 1:
            self._owners[address] = rivals[0]
        elif owner in rivals:
            self._owners[address] = owner

    def _is_strangers(self, address: str, services: Iterable[str]) -> bool:
        """Whether a pod that stays has the address and belongs to no service. False if the pods of one of `services`
        are not known, because EndpointSlices give its addresses."""
        if any(_slices(self._selection, name) for name in services):
            return False
        return any(stays and not self._selection.services_of(pod) for pod, stays in self._at(address).items())


def _ordered(texts: Iterable[str]) -> list[str]:
    """Return addresses in canonical order: a reader recognises an unchanged entry at once."""
    return sorted(texts, key=lambda text: order(network(text)))


def _present(selection: Selection, name: str) -> dict[str, bool]:
    """Return the addresses where a service has pods of its own, each with whether one of these pods stays. An address
    of an EndpointSlice counts as one that does not stay, so a pod's claim wins."""
    stays: dict[str, bool] = {}
    for pod in selection.pods(name).values():
        for address in () if pod.host_network else pod.addresses:
            stays[address] = stays.get(address, False) or not pod.is_terminating
    for slice_ in _slices(selection, name):
        stays.update(dict.fromkeys(slice_.addresses, False))
    return stays


def _ready(selection: Selection, name: str) -> Mapping[str, bool]:
    """Return the addresses of a service, each with whether it receives new requests. Pods on the network of one host
    share an address."""
    readiness: dict[str, bool] = {}
    for pod in selection.pods(name).values():
        for address in pod.addresses:
            readiness[address] = readiness.get(address, False) or (pod.is_ready and not pod.is_terminating)
    for slice_ in _slices(selection, name):
        for address in slice_.addresses:
            readiness[address] = readiness.get(address, False) or address not in slice_.unready
    return readiness


def _slices(selection: Selection, name: str) -> Iterable[Slice]:
    """Return the EndpointSlices of a service whose Service has no selector: they give its addresses."""
    service = selection.service(name)
    return () if service is None or service.selector else selection.slices(name).values()
