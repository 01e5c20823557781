"""Reads objects of the API, as plain JSON, into records.

    Pod, Service, EndpointSlice, Namespace --decode--> records; None for an object that admc does not use

The API server has checked the types of all fields. If a proxy on the way altered an object, `MalformedError` names it.
Such an object must never be read as one with fewer labels or addresses.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from admc.kubernetes.cluster.names import reserved
from admc.kubernetes.cluster.records import Key, Namespace, Pod, Service, ServicePort, Slice
from admc.kubernetes.inject import security
from admc.kubernetes.inject.names import ADM_CONTAINER, KEEP_NET_RAW, RULES_CONTAINER, WAIT_CONTAINER
from admc.kubernetes.inject.probes import PROBES, number_of
from admc.kubernetes.inject.selectors import selected
from emitters.health_probes import PERIOD, TIMEOUT, Probe, ProbeHeader, fault, parse
from emitters.interception.pod import PodCaptures, parse_arguments
from emitters.ports import PROBE_PORT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from admc.kubernetes.inject.recognised import Recognition

    Json = Mapping[str, Any]

OVER: Final = ("Succeeded", "Failed")
SERVICE_OF_SLICE: Final = "kubernetes.io/service-name"
HEADLESS: Final = "None"
MAX_ITEMS: Final = 10_000
"""The most items of one list or map of an object. etcd holds no object that is much larger."""
_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")
NO_CAPTURES: Final = PodCaptures()
_WRONG: Final = (AttributeError, KeyError, TypeError, ValueError, OverflowError)


class MalformedError(ValueError):
    """An object does not have the form of its kind. The message names the object, and what is wrong with it."""


class PodDecoder:
    """Reads pods. `recognise` returns which containers of a pod are exactly as injection writes them."""

    def __init__(self, recognise: Callable[[Json], Recognition]) -> None:
        self._recognise = recognise

    def __call__(self, item: Json) -> Pod | None:
        """Raises `MalformedError`."""
        try:
            return self._pod(item)
        except _WRONG as error:
            raise _malformed("Pod", item, error) from error

    def _pod(self, item: Json) -> Pod | None:
        metadata, spec, status = item["metadata"], item["spec"], item.get("status") or {}
        ours, unrecognised = self._recognise(item)
        service, captures = "", NO_CAPTURES
        if RULES_CONTAINER in ours:
            service, captures = parse_arguments(_named(spec["initContainers"], RULES_CONTAINER)["args"])
        annotations = metadata.get("annotations") or {}
        probes, probe_fault = _probes(spec)
        kept = RULES_CONTAINER in ours or annotations.get(KEEP_NET_RAW) == "true"
        return Pod(
            key=Key(_text(metadata["namespace"]), _text(metadata["name"])),
            uid=_text(metadata["uid"]),
            labels=_texts(metadata.get("labels")),
            addresses=_addresses(address["ip"] for address in _bounded(status.get("podIPs"))),
            is_over=status.get("phase") in OVER,
            is_ready=_is_ready(status),
            is_terminating="deletionTimestamp" in metadata,
            host_network=spec.get("hostNetwork") is True,
            account=spec.get("serviceAccountName") or "default",
            ports=_named_ports(spec),
            hosts_no_adm=security.hosts_no_adm(metadata, spec),
            untrusted=security.untrusted(spec, injected=ours, keeps_net_raw=kept),
            service=service,
            captures=captures,
            is_redirected=RULES_CONTAINER in ours and _has_ended_well(status, RULES_CONTAINER),
            waits=WAIT_CONTAINER in ours,
            created=metadata.get("creationTimestamp") or "",
            unrecognised=unrecognised,
            probes=probes,
            probe_fault=probe_fault,
        )


def service(item: Json) -> Service | None:
    """Raises `MalformedError`."""
    try:
        metadata, spec = item["metadata"], item["spec"]
        external = spec.get("type") == "ExternalName"
        addresses = spec.get("clusterIPs") or [spec.get("clusterIP") or HEADLESS]
        selector = {} if external else spec.get("selector") or {}
        its = selected(selector, metadata.get("annotations") or {})
        return Service(
            key=Key(_text(metadata["namespace"]), _text(metadata["name"])),
            uid=_text(metadata["uid"]),
            created=metadata.get("creationTimestamp") or "",
            addresses=_addresses(text for text in _bounded(addresses) if text != HEADLESS),
            external_name=_text(spec["externalName"]) if external else "",
            selector=_texts(its.pods),
            ports=tuple(_service_port(port) for port in _bounded(spec.get("ports"))),
            receivers=its.receivers,
            unusable=its.unusable,
            fault=its.fault,
        )
    except _WRONG as error:
        raise _malformed("Service", item, error) from error


def endpoint_slice(item: Json) -> Slice | None:
    """Return None for a slice of no Service, and for a slice of host names. Raises `MalformedError`."""
    try:
        metadata = item["metadata"]
        owner = (metadata.get("labels") or {}).get(SERVICE_OF_SLICE)
        if not owner or item.get("addressType") not in ("IPv4", "IPv6"):
            return None
        endpoints = _bounded(item.get("endpoints"))
        # A missing condition counts as true.
        unready = [endpoint for endpoint in endpoints if (endpoint.get("conditions") or {}).get("ready") is False]
        return Slice(
            key=Key(_text(metadata["namespace"]), _text(metadata["name"])),
            service=_text(owner),
            addresses=_addresses(text for endpoint in endpoints for text in endpoint["addresses"]),
            unready=_addresses(text for endpoint in unready for text in endpoint["addresses"]),
        )
    except _WRONG as error:
        raise _malformed("EndpointSlice", item, error) from error


def namespace(item: Json, own: str = "") -> Namespace | None:
    """`own` is the namespace of the server. Raises `MalformedError`."""
    try:
        metadata = item["metadata"]
        name = _text(metadata["name"])
        labels = _texts(metadata.get("labels"))
        return Namespace(name, labels, "deletionTimestamp" in metadata, reserved(name, own))
    except _WRONG as error:
        raise _malformed("Namespace", item, error) from error


def _is_ready(status: Json) -> bool:
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in _bounded(status.get("conditions"))
    )


def _has_ended_well(status: Json, name: str) -> bool:
    """Whether an init container has succeeded in the present sandbox of its pod.

    When a node restarts, a pod gets another sandbox. Its network namespace is new and has no rules, and all init
    containers run again. `state` has the present run and `lastState` an earlier one; only the present one counts. For a
    moment after the old sandbox is lost, `state` still shows its run. That does no harm: no process of the pod's own
    starts in a sandbox before the rules container has succeeded there.
    """
    state = _named(status.get("initContainerStatuses") or (), name).get("state") or {}
    ended = state.get("terminated")
    return ended is not None and ended.get("exitCode") == 0


def _named(containers: Iterable[Json], name: str) -> Json:
    return next((container for container in containers if container.get("name") == name), {})


def _probes(spec: Json) -> tuple[tuple[Probe, ...], str]:
    """Return the probes that ask the ADM of a pod, and why the ADM cannot answer one of them; empty if it can answer
    all. Without an ADM, a pod may have any probe at that port."""
    if not _named(spec.get("initContainers") or (), ADM_CONTAINER):
        return (), ""
    probes: list[Probe] = []
    faults: list[str] = []
    for container in (*_bounded(spec.get("containers")), *_bounded(spec.get("initContainers"))):
        for name in PROBES:
            probe = container.get(name) or {}
            get = probe.get("httpGet") or {}
            if get.get("port") != PROBE_PORT:
                continue
            written = parse(get.get("path") or "")
            port = written and written.port
            number = number_of(container, int(port) if port and port.isdecimal() else port)
            if number is None or not 0 < number < 1 << 16:
                faults.append(f"{name}: it asks port {PROBE_PORT}, and not for a port of its container")
                continue
            headers = tuple(
                ProbeHeader(_text(header["name"]), header.get("value") or "") for header in get.get("httpHeaders") or ()
            )
            times = probe.get("periodSeconds") or PERIOD, probe.get("timeoutSeconds") or TIMEOUT
            read = Probe(get["path"], number, headers, *times)
            if why := fault(read):
                faults.append(f"{name}: {why}")
            else:
                probes.append(read)
    return _shared(tuple(probes)), faults[0] if faults else ""


@lru_cache(maxsize=1 << 12)
def _shared(probes: tuple[Probe, ...]) -> tuple[Probe, ...]:
    """Return the same object for equal probes, which the pods of one template have."""
    return probes


def _named_ports(spec: Json) -> Mapping[str, int]:
    """Return the named ports as Kubernetes resolves them: of the first container that has a TCP port of the name."""
    ports: dict[str, int] = {}
    sidecars = [
        container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"
    ]
    for container in (*_bounded(spec.get("containers")), *sidecars):
        for port in container.get("ports") or ():
            if port.get("name") and port.get("protocol", "TCP") == "TCP":
                ports.setdefault(port["name"], _number(port["containerPort"]))
    return ports


def _service_port(item: Json) -> ServicePort:
    number = _number(item["port"])
    target = item.get("targetPort") or number  # a headless Service may have a target port of 0
    if not isinstance(target, str):
        target = _number(target)
    return ServicePort(number, target, item.get("name") or "", item.get("protocol") or "TCP")


def _number(value: object) -> int:
    if type(value) is not int or not 0 < value < 1 << 16:
        raise ValueError(f"{value!r} is no port")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no name")
    return value


def _texts(items: Mapping[str, str] | None) -> Mapping[str, str]:
    if not items:
        return {}
    if len(items) > MAX_ITEMS:
        raise ValueError(f"it has more than {MAX_ITEMS:,} labels")
    if not all(isinstance(value, str) for value in items.values()):
        raise ValueError("its labels are not texts")
    return items


def _bounded(items: Sequence[Any] | None) -> Sequence[Any]:
    if not items:
        return ()
    if not isinstance(items, list) or len(items) > MAX_ITEMS:
        raise ValueError(f"{str(items)[:40]} is not a list of at most {MAX_ITEMS:,}")
    return items


def _addresses(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_address(text) for text in texts if text))


@lru_cache(maxsize=1 << 16)
def _address(text: str) -> str:
    """Return an address in its canonical form. Raises `ValueError`."""
    # The API server accepts zeros before the numbers of an IPv4 address, and reads none of them as octal.
    address = ipaddress.ip_address(_ZEROS.sub("", text) if ":" not in text else text)
    plain = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(plain or address)


def _malformed(kind: str, item: Json, error: Exception) -> MalformedError:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    known = metadata if isinstance(metadata, dict) else {}
    name = f"{known.get('namespace') or ''}/{known.get('name') or ''}"[:300]
    if isinstance(error, KeyError):
        what = f"it has no `{error.args[0]}`"
    else:
        what = str(error)[:200] if isinstance(error, ValueError) else "a field has another type than in the API"
    return MalformedError(f"the {kind} `{name}` is malformed: {what}")
