"""The addresses of a program's services, in the form of an endpoints file (docs/endpoints.md).

    Endpoints before, Selection, names of changed services --renewed--> Endpoints --> the document, as bytes

The same content has the same bytes.

The document lists a service once its addresses are *known*, even if it has none. Until then, ADMs refuse the
connections that may be those of the service and would pass without its policies. The document does not list a service

- whose Service is absent or a name outside of the cluster: no object shows which pods belong to it. If it were listed
  without pods, a request of such a pod would count as that of an unknown caller, and meet no policy about the service;
- that shares its Service or a pod with another service: a pod has the ADM of one service, and an address has one owner;
- that has a pod at an address whose owner is not known, because a pod of another service may have it by now;
- that has a pod on the host's network, until the plan in force takes that into account: the address of such a pod is
  that of the whole node.

A service whose Service has no selector is listed with the addresses in its EndpointSlices as pods. One whose Service
selects no pod is listed with the addresses of the Service and without pods. None of its pods can send a request, and a
new pod is in the document before it sends its first one (docs/cluster/addresses.md).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from rpds import HashTrieMap

from admc.kubernetes.cluster.core.probes import learned
from dsl.diagnostics.diagnostic import Diagnostic, Related, Severity
from emitters.addresses import network
from emitters.addresses.model import order

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from admc.kubernetes.cluster.core.selection import Selection
    from admc.kubernetes.cluster.records import Slice
    from dsl.program import Program

UNLISTED: Final = b""
STRANGER: Final = ""
"""Stands for the owner of an address whose pod belongs to no service of the program. No service has this name."""
_EMPTY: Final = b'{"services":{}}'
Stays = dict[str, bool]
"""Services or addresses, each with whether one of its pods stays (does not terminate)."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The addresses of a program's services. They are complete only once all watches have listed their objects.

    `owners` depends on history: while the records of two pods have one address, the service that owned it keeps it.
    """

    entries: Mapping[str, bytes] = field(default_factory=dict)
    """Service -> its entry, in the order of names; `UNLISTED` for a service that is not listed."""
    probes: Mapping[str, str] = field(default_factory=dict)
    """Service -> the document of its pods' probes; absent without any."""
    rows: Mapping[str, bytes] = field(default_factory=dict)
    """Service -> its part of the document; empty if it is not listed."""
    document: bytes = _EMPTY
    owners: HashTrieMap[str, str] = field(default_factory=HashTrieMap)
    """Address -> the service that owns it; `STRANGER` if the pod there belongs to no service."""
    claims: HashTrieMap[str, Stays] = field(default_factory=HashTrieMap)
    """Address -> the services with a pod there."""
    claimed: HashTrieMap[str, Stays] = field(default_factory=HashTrieMap)
    """Service -> the addresses of its pods."""

    @property
    def unlisted(self) -> tuple[str, ...]:
        """The services whose addresses are not known."""
        return tuple(name for name, entry in self.entries.items() if entry == UNLISTED)

    def moved(self, addresses: Iterable[str]) -> frozenset[str]:
        """Return those of the addresses, which pods have taken or left, where a service has a pod: the address may
        belong to a pod of no service by now."""
        return frozenset(address for address in addresses if address in self.claims)


def renewed(before: Endpoints, selection: Selection, names: Collection[str], moved: Collection[str] = ()) -> Endpoints:
    """Return the addresses after a change of the services `names`, and of the pods at the addresses `moved`. The cost
    grows with the number of pods of the services that the change concerns."""
    claims, claimed, changed = _claims(before, selection, names)
    owners, stale = before.owners, set(names)
    for address in changed | before.moved(moved):
        services = claims.get(address) or {}
        stale.update(services)
        owners = _settled(owners, selection, address, services)
        if not services:
            claims = claims.discard(address)
    probes = _probes(before.probes, selection, names)
    after = replace(before, owners=owners, claims=claims, claimed=claimed, probes=probes)
    changed_entries = {name: _entry(after, selection, name) for name in stale}
    if probes is before.probes and all(before.entries.get(name) == entry for name, entry in changed_entries.items()):
        return after
    merged, rows = _merged(before.entries, changed_entries), _merged(before.rows, rows_of(changed_entries))
    return replace(after, entries=merged, rows=rows, document=document_of(rows, probes))


def _probes(before: Mapping[str, str], selection: Selection, names: Iterable[str]) -> Mapping[str, str]:
    """Return the probes of all services, after a change of the services `names`; `before` itself, if they are the
    same."""
    changed = {name: learned(selection, name).document for name in names}
    if all(before.get(name, "") == document for name, document in changed.items()):
        return before
    return {name: document for name, document in sorted({**before, **changed}.items()) if document}


def rows_of(of: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return the part of the document for each entry; empty for a service that is not listed."""
    # A name of the language needs no escape in JSON.
    return {name: b'"%b":%b' % (name.encode(), entry) if entry else b"" for name, entry in of.items()}


def document_of(rows: Mapping[str, bytes], probes: Mapping[str, str]) -> bytes:
    """Return the document with these parts. The probes of a service are a text in it: only the emitter reads them."""
    services = b'"services":{%b}' % b",".join(filter(None, rows.values()))
    more = b',"probes":%b' % json.dumps(probes, separators=(",", ":")).encode() if probes else b""
    return b"{%b%b}" % (services, more)


def _merged(before: Mapping[str, bytes], changed: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return both in the order of names."""
    merged = {**before, **changed}
    return merged if len(merged) == len(before) else dict(sorted(merged.items()))


def findings(endpoints: Endpoints, selection: Selection) -> tuple[Diagnostic, ...]:
    """Return one finding for each pair of services that have pods at one address whose owner is not known; of more than
    two services there, the first two count. `mismatches` reports services that share a Service or a pod."""
    pairs: dict[tuple[str, ...], str] = {}
    for address, services in endpoints.claims.items():
        if address in endpoints.owners:
            continue
        shared = {other for name in services for other in selection.shared_with(name)}
        if not shared.intersection(services):
            pair = tuple(sorted(services)[:2])
            pairs[pair] = min(address, pairs.get(pair, address))
    return tuple(_contested(selection.program, pair, address) for pair, address in sorted(pairs.items()))


def _contested(program: Program, pair: tuple[str, ...], address: str) -> Diagnostic:
    one, other = (program.services[name] for name in pair)
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


def _entry(endpoints: Endpoints, selection: Selection, name: str) -> bytes:
    service = selection.service(name)
    if service is None or service.external_name or selection.shared_with(name):
        return UNLISTED
    if selection.surprises_by_host_network(name):
        return UNLISTED
    owners = endpoints.owners
    if any(address not in owners for address in endpoints.claimed.get(name) or ()):
        return UNLISTED
    ready = _ready(selection, name)
    pods = _ordered(address for address in ready if owners.get(address) in (name, None))
    entry: dict[str, list[str]] = {"addresses": _ordered(service.addresses), "pods": pods}
    if unready := [address for address in pods if not ready[address]]:
        entry["unready"] = unready
    kept_apart = _apart(selection, name)
    if apart := [address for address in pods if address in kept_apart]:
        entry["apart"] = apart
    return json.dumps(entry, separators=(",", ":")).encode()


# ---- one address, two pods ----


def _claims(
    before: Endpoints, selection: Selection, names: Collection[str]
) -> tuple[HashTrieMap[str, Stays], HashTrieMap[str, Stays], set[str]]:
    """Return where services have pods of their own: the services by address, and the addresses by service. The third
    value has the addresses at which that changed."""
    claims, claimed, changed = before.claims, before.claimed, set()
    for name in names:
        earlier, now = claimed.get(name) or {}, _present(selection, name)
        if earlier == now:
            continue
        claimed = claimed.insert(name, now) if now else claimed.remove(name)
        for address in earlier.keys() | now.keys():
            if earlier.get(address) != now.get(address):
                others = {other: stays for other, stays in (claims.get(address) or {}).items() if other != name}
                own = {name: now[address]} if address in now else {}
                claims = claims.insert(address, {**others, **own})
                changed.add(address)
    return claims, claimed, changed


def _settled(
    owners: HashTrieMap[str, str], selection: Selection, address: str, services: Stays
) -> HashTrieMap[str, str]:
    """Decide which service owns an address. While an address passes from one pod to another, the records of both may
    have it.

    A pod that stays wins over a pod that terminates. Between equal pods, the service that owned the address keeps it,
    and the pod of the other service waits until the older record is corrected. Without an earlier owner, as after a
    restart of the server, nothing shows which record is older, so the address has no owner.
    """
    rivals = [name for name, stays in services.items() if stays] or list(services)
    owner = owners.get(address)
    if not rivals:
        return owners.discard(address)
    if not any(services.values()) and _is_strangers(selection, address, services):
        return owners.insert(address, STRANGER)
    if len(rivals) == 1:
        return owners.insert(address, rivals[0])
    return owners if owner in rivals else owners.discard(address)


def _is_strangers(selection: Selection, address: str, services: Iterable[str]) -> bool:
    """Whether a pod that stays has the address and belongs to no service. False if one of `services` is known by its
    EndpointSlices alone: its pods are not known."""
    if any(_slices(selection, name) for name in services):
        return False
    return any(stays and not selection.services_of(pod) for pod, stays in selection.view.at(address).items())


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


def _apart(selection: Selection, name: str) -> frozenset[str]:
    """Return the addresses of the pods that get no requests: the Service does not select them at present."""
    service = selection.service(name)
    if service is None or not service.receivers:
        return frozenset()
    labels, receiving, other = service.receivers.items(), set[str](), set[str]()
    for pod in selection.pods(name).values():
        (receiving if labels <= pod.labels.items() else other).update(pod.addresses)
    return frozenset(other - receiving)


def _slices(selection: Selection, name: str) -> Iterable[Slice]:
    """Return the EndpointSlices of a service whose Service has no selector: they give its addresses."""
    service = selection.service(name)
    return () if service is None or service.selector else selection.slices(name).values()
