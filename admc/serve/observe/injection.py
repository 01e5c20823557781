"""What the pods of each service are to have, as one document: made from a plan, or asked of a server.

program + placement --injection_document--> InjectionDocument --to_json--> /injection.json --from_json--> admc inject
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.json_document import JsonDocumentError, versioned
from admc.serve.build.address_deps import AddressIndex
from admc.typed_json import JsonTypeError, parse, plain
from emitters.interception.pod import pod_captures
from emitters.kubernetes import kubernetes_name, pod_labels

if TYPE_CHECKING:
    from dsl.program import Program
    from emitters.hops import Hop
    from solver.placement import Placement

SCHEMA_VERSION: Final = 1


class Captured(NamedTuple):
    """The ports whose connections the rules of a pod redirect, sorted."""

    ingress: tuple[int, ...]
    egress: tuple[int, ...]


class ServiceRow(NamedTuple):
    namespace: str
    object: str
    """The name of its Kubernetes Service."""
    labels: Mapping[str, str]
    """Of its pods, for manifests without its Service."""
    captures: Captured | None
    """None: it has no ADM."""
    awaited: bool
    """Some ADM needs the addresses of its pods, so they wait until it has them."""


class InjectionDocument(NamedTuple):
    schema_version: int
    app: str
    installation: str
    """Empty where the server follows files."""
    server: str
    """`HOST:PORT` of its xDS port, as pods dial it; empty where the server follows files."""
    services: Mapping[str, ServiceRow]


class InjectionFormatError(Exception):
    """The text is no such document."""


def injection_document(
    plans: Iterable[tuple[Program, Placement]],
    *,
    installation: str = "",
    server: str = "",
    objects: Mapping[str, str] | None = None,
) -> InjectionDocument:
    """What pods need for all of these plans, of which the last one is the newest and says which services there are.

    In the middle of a rollout a pod needs what the plans at its two ends need. `objects` names the Kubernetes Service
    of a service where that has not the usual name.
    """
    placed = tuple(plans)
    newest = placed[-1][0]
    indexes = [AddressIndex(program, placement) for program, placement in placed]
    needed = [index.needed_by() for index in indexes]
    rows = {}
    for name, service in sorted(newest.services.items()):
        found = [index.hops[name] for index in indexes if name in index.hops]
        rows[name] = ServiceRow(
            service.namespace,
            (objects or {}).get(name) or kubernetes_name(name),
            pod_labels(service),
            _captured([hop for hops in found for hop in hops]) if found else None,
            any(each.get(name) for each in needed),
        )
    return InjectionDocument(SCHEMA_VERSION, newest.app, installation, server, rows)


def _captured(hops: list[Hop]) -> Captured:
    found = pod_captures(hops)
    return Captured(tuple(sorted(found.ingress)), tuple(sorted(found.egress)))


def to_json(document: InjectionDocument) -> bytes:
    return (json.dumps(plain(document), indent=1) + "\n").encode("ascii")


def from_json(content: bytes) -> InjectionDocument:
    """Raises `InjectionFormatError`."""
    try:
        data, _ = versioned(content, SCHEMA_VERSION)
        found: InjectionDocument = parse(InjectionDocument, data)
    except JsonDocumentError as error:
        raise InjectionFormatError(str(error)) from error
    except JsonTypeError as error:
        raise InjectionFormatError(f"`{error.where}` {error.what}") from error
    return found
