"""The `Injection` objects of an installation, and which of them have to be written or removed. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from admc.kubernetes.cluster.names import CONTROLLER, GROUP, VERSION
from admc.kubernetes.cluster.records import Key
from admc.kubernetes.inject.needs import Needs, in_common
from admc.kubernetes.inject.spec import to_json
from admc.manifests.documents import at

if TYPE_CHECKING:
    from collections.abc import Collection

    from admc.kubernetes.cluster.program.owner import Owner
    from admc.kubernetes.inject.spec import InjectionSpec, ServiceInjection

KIND: Final = "Injection"
PATH: Final = f"/apis/{GROUP}/{VERSION}/namespaces/{{0}}/injections/{{1}}"
"""Of the object of a namespace and a name."""
EVERYWHERE: Final = f"/apis/{GROUP}/{VERSION}/injections"


class InjectionObject(NamedTuple):
    """An `Injection` of the cluster."""

    key: Key
    uid: str
    controller: str
    """The installation that wrote it, by its label."""
    owners: tuple[str, ...]
    """`uid` of each object that owns it."""
    spec: object


def injection_object(document: Mapping[str, Any]) -> InjectionObject | None:
    """Return the record of an `Injection`; None for one that is being deleted."""
    metadata = document["metadata"]
    if "deletionTimestamp" in metadata:
        return None
    return InjectionObject(
        Key(metadata["namespace"], metadata["name"]),
        metadata["uid"],
        (metadata.get("labels") or {}).get(CONTROLLER, ""),
        tuple(owner["uid"] for owner in metadata.get("ownerReferences") or ()),
        document.get("spec"),
    )


def body(spec: InjectionSpec, namespace: str, controller: str, owner: Owner) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KIND,
        "metadata": {
            "name": controller,
            "namespace": namespace,
            "labels": {CONTROLLER: controller},
            "ownerReferences": [owner.reference],
        },
        "spec": to_json(spec),
    }


class Changes(NamedTuple):
    applied: tuple[dict[str, Any], ...]
    removed: tuple[InjectionObject, ...]


def changes(
    wanted: Mapping[str, dict[str, Any]],
    needed: Collection[str],
    there: Mapping[Key, InjectionObject],
    controller: str,
    owner: Owner,
) -> Changes:
    """Return what to do. `wanted` has the body for each namespace that takes part. One of the namespaces `needed` that
    takes no part at present keeps its object, as its pods keep their plan."""
    applied = [
        new
        for namespace, new in sorted(wanted.items())
        if not _is_as(there.get(Key(namespace, controller)), new, controller, owner)
    ]
    removed = [
        item
        for key, item in sorted(there.items())
        if key.name == controller and key.namespace not in wanted and key.namespace not in needed
    ]
    return Changes(tuple(applied), tuple(removed))


def _is_as(there: InjectionObject | None, new: Mapping[str, Any], controller: str, owner: Owner) -> bool:
    return there is not None and is_written_for(there, controller, owner) and there.spec == new["spec"]


def is_written_for(there: InjectionObject, controller: str, owner: Owner) -> bool:
    """Whether an object is one of this installation and goes with this Program."""
    return there.controller == controller and there.owners == (owner.uid,)


def has_labels(there: InjectionObject, service: str, selector: Mapping[str, str], checked: Mapping[str, str]) -> bool:
    """Whether the row of a guarded service has these labels: its selector, and those by which pods were checked."""
    required = at(there.spec, ("services", service, "required"))
    has = at(there.spec, ("services", service, "selector"))
    return isinstance(required, dict) and has == selector and required.get("selector", has) == checked


def has_all(stored: InjectionSpec, needed: InjectionSpec) -> bool:
    """Whether the pods of each service that needs something get at least that by a stored spec. They are those of the
    selector there."""
    if (stored.app, stored.server) != (needed.app, needed.server):
        return False
    return all(
        (row := stored.services.get(name)) is not None and _covers(row, own) for name, own in needed.services.items()
    )


def _covers(row: ServiceInjection, own: ServiceInjection) -> bool:
    there = Needs(row.captures, row.waits)
    return in_common(there, needed := Needs(own.captures, own.waits)) == needed
