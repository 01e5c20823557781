"""The spec of an `Injection`: what the pods of one namespace need, by the selectors of their Services.

    services --injection_spec--> InjectionSpec --to_json--> Injection
    Injection --read_spec--> InjectionSpec --services_of--> the services of a pod

It names no image, no command and no container. These come from the command line and from code, so that an account
that could write the object could not run a container by it. It is immutable, and its bytes do not depend on the order
of input.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from admc.kubernetes.inject.names import CPU, MEMORY
from dsl.documents import DocumentError, Filled, Form, Given, PortNumber, document, read, record

FORMAT: Final = 1
"""The version of the spec. It grows when a reader of the earlier version would do something wrong with a newer one."""
MAX_BYTES: Final = 1_000_000
"""Of an object, as JSON: etcd refuses more than 1.5 MB."""

_NAME: Final = Form("[A-Za-z_][A-Za-z0-9_-]{0,199}", "must be the name of an app or a service")
_PART: Final = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEY: Final = f"([a-z0-9.-]{{1,253}}/)?{_PART}"
ServiceName = Annotated[str, _NAME]
LabelKey = Annotated[str, Form(_KEY, "must be the key of a label")]
LabelValue = Annotated[str, Form(f"({_PART})?", "must be the value of a label")]
Label = Annotated[str, Form(f"{_KEY}=({_PART})?", "must be a label, KEY=VALUE")]
ObjectName = Annotated[str, Form("[a-z0-9.-]{1,253}", "must be the name of a Service")]
Server = Annotated[str, Form(r"([A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[1-9][0-9]{0,4}", "must be HOST:PORT")]
Cpu = Annotated[str, Form(CPU, "must be an amount of CPU, such as 50m")]
Memory = Annotated[str, Form(MEMORY, "must be an amount of memory, such as 64Mi")]


@record
class Captures:
    """The ports whose connections the rules of a pod redirect to its ADM, sorted."""

    ingress: tuple[PortNumber, ...]
    egress: tuple[PortNumber, ...]


@document
class Amounts:
    """Amounts of CPU and memory, in the notation of Kubernetes."""

    cpu: Given[Cpu] = None
    memory: Given[Memory] = None


@document
class Resources:
    """The resources of the container with the ADM."""

    requests: Amounts
    limits: Given[Amounts] = None


@document
class Required:
    """What the plan in force needs of each pod of a service. The guard of the API server refuses a pod without it."""

    waits: bool
    captures: Given[Captures] = None
    """None without an ADM."""
    selector: Given[Annotated[Mapping[LabelKey, LabelValue], Filled]] = None
    """The labels that the Service has to select by: each pod with them has been checked. None if these are those of the
    row."""


LEAST_CPU: Final = 50
"""Millicores that an ADM requests at least."""
LEAST_MEMORY: Final = 64
"""The same in MiB."""
DEFAULT: Final = Resources(Amounts(f"{LEAST_CPU}m", f"{LEAST_MEMORY}Mi"))


@document
class ServiceInjection:
    """What the pods of one service need."""

    selector: Annotated[Mapping[LabelKey, LabelValue], Filled]
    """That of its Kubernetes Service."""
    waits: bool
    """Whether some ADM needs the addresses of these pods, so that each waits at its start until the ADM has its own."""
    resources: Resources = DEFAULT
    captures: Given[Captures] = None
    """None without an ADM."""
    required: Given[Required] = None
    """None while the service is not guarded."""
    service: Given[ObjectName] = None
    """The name of its Kubernetes Service; None if that is the name of the service."""

    @property
    def needs_something(self) -> bool:
        return self.waits or self.captures is not None


@record
class InjectionSpec:
    """The services of one namespace."""

    formatVersion: Literal[1]  # noqa: N815 - the name in the API
    app: ServiceName
    server: Server
    """`HOST:PORT` of the xDS server, as pods dial it."""
    services: Mapping[ServiceName, ServiceInjection]
    index: Mapping[Label, Annotated[tuple[ServiceName, ...], Filled]]
    """One label of each selector -> the services with this selector: the labels of a pod lead to its candidates."""


class InjectionError(Exception):
    """A spec cannot be used. `is_newer` tells that a newer admc wrote it."""

    def __init__(self, message: str, *, is_newer: bool = False) -> None:
        self.is_newer = is_newer
        super().__init__(message)


def injection_spec(app: str, server: str, services: Mapping[str, ServiceInjection]) -> InjectionSpec:
    ordered = dict(sorted(services.items()))
    return InjectionSpec(1, app, server, ordered, _index({name: row.selector for name, row in ordered.items()}))


def services_of(spec: InjectionSpec, labels: Mapping[str, str]) -> tuple[str, ...]:
    """Return the services whose selectors select a pod with these labels, sorted. It is an error if there are two."""
    candidates = {name for item in labels.items() for name in spec.index.get(_label(*item), ())}
    return tuple(sorted(name for name in candidates if spec.services[name].selector.items() <= labels.items()))


def to_json(spec: InjectionSpec) -> dict[str, Any]:
    """Return the spec as it stands in the object."""
    return {
        "formatVersion": spec.formatVersion,
        "app": spec.app,
        "server": spec.server,
        "services": {name: _service(row) for name, row in spec.services.items()},
        "index": {label: list(names) for label, names in spec.index.items()},
    }


def size(document: Mapping[str, Any]) -> int:
    """Return the bytes of an object as JSON."""
    return len(json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass"))


def read_spec(given: object) -> InjectionSpec:
    """Read the spec of an object, of which nothing has been checked. Raises `InjectionError`."""
    if not isinstance(given, dict):
        raise InjectionError("`spec` is not an object")
    version = given.get("formatVersion")
    if isinstance(version, int) and version > FORMAT:
        raise InjectionError(f"it has format version {version}, and this admc reads {FORMAT}", is_newer=True)
    if size(given) > MAX_BYTES:
        raise InjectionError(f"it has more than {MAX_BYTES // 10**6} MB")
    try:
        spec = read(InjectionSpec, json.dumps(given).encode())
    except DocumentError as error:
        raise InjectionError(error.message) from error
    _check_index(spec)
    return spec


def _check_index(spec: InjectionSpec) -> None:
    """Raises `InjectionError` unless each service is found by exactly one label, which its selector has."""
    labels = Counter(name for names in spec.index.values() for name in names)
    wrong = {name for name in spec.services.keys() | labels.keys() if labels[name] != 1 or name not in spec.services}
    for label, names in spec.index.items():
        wrong |= {name for name in names if name in spec.services and label not in _labels(spec.services[name])}
    if wrong:
        raise InjectionError(f"`index` does not have `{min(wrong)}` by one label of its selector")


def _index(selectors: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Find each service by the label of its selector that the fewest selectors have: another label may stand in all of
    them."""
    numbers = Counter(_label(*item) for selector in selectors.values() for item in selector.items())
    index: dict[str, list[str]] = {}
    for name, selector in sorted(selectors.items()):
        label = min((_label(*item) for item in selector.items()), key=lambda label: (numbers[label], label))
        index.setdefault(label, []).append(name)
    return {label: tuple(names) for label, names in sorted(index.items())}


def _labels(row: ServiceInjection) -> set[str]:
    return {_label(*item) for item in row.selector.items()}


def _label(key: str, value: str) -> str:
    return f"{key}={value}"


def _service(row: ServiceInjection) -> dict[str, Any]:
    service: dict[str, Any] = {"selector": dict(sorted(row.selector.items())), "waits": row.waits}
    service |= _captures(row.captures)
    if row.required is not None:
        service["required"] = {"waits": row.required.waits, **_captures(row.required.captures)}
        if row.required.selector is not None:
            service["required"]["selector"] = dict(sorted(row.required.selector.items()))
    if row.service is not None:
        service["service"] = row.service
    return {**service, "resources": resources_json(row.resources)}


def _captures(captures: Captures | None) -> dict[str, Any]:
    if captures is None:
        return {}
    return {"captures": {"ingress": list(captures.ingress), "egress": list(captures.egress)}}


def resources_json(resources: Resources) -> dict[str, Any]:
    """Return resources as a container has them."""
    parts = {"requests": resources.requests, "limits": resources.limits}
    return {name: _amounts(part) for name, part in parts.items() if part is not None}


def _amounts(amounts: Amounts) -> dict[str, str]:
    given = {"cpu": amounts.cpu, "memory": amounts.memory}
    return {name: amount for name, amount in given.items() if amount is not None}
