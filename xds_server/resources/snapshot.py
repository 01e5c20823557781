"""Snapshots: the named resources of a group of clients, with versions. They are immutable.

A resource is serialised once, and all streams share its bytes. Its version is a digest of the bytes, and so the same on
every replica of the server and after a restart.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.message import DecodeError

from xds_server.resources.encoding import text_field
from xds_server.resources.references import Reference, message_class, references
from xds_server.resources.types import CLUSTER, ENDPOINTS, NAME_FIELD, PREFIX, short

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from google.protobuf.message import Message

_CLUSTER_NAME: Final = 1
"""Field number in `ClusterLoadAssignment`."""
SHOWN: Final = 5
"""The most problems of a snapshot that an error message lists."""


class SnapshotError(ValueError):
    """A snapshot cannot be made or published.

    SnapshotError
    ├── BadResourceError            bytes that are no resource, or a resource without a name
    ├── DuplicateResourceError      two resources of one type with one name
    └── InconsistentSnapshotError   a resource refers to one that does not exist
    """


class BadResourceError(SnapshotError):
    """Bytes are no message of their type, or the message has no name."""


class DuplicateResourceError(SnapshotError):
    """Two resources of one type have one name: clients refuse a response with both."""

    def __init__(self, type_url: str, name: str) -> None:
        super().__init__(f"two resources of type `{short(type_url)}` are named `{name}`")
        self.type_url = type_url
        self.name = name


@dataclass(frozen=True, slots=True)
class Dangling:
    """A reference to a resource that is not in the snapshot."""

    type_url: str
    name: str
    missing: Reference

    def __str__(self) -> str:
        missing = f"`{short(self.missing.type_url)}` `{self.missing.name}`"
        return f"`{short(self.type_url)}` `{self.name}` refers to {missing}, which is not in the snapshot"


class InconsistentSnapshotError(SnapshotError):
    """Resources refer to others that do not exist. `problems` has all of them."""

    def __init__(self, problems: tuple[Dangling, ...]) -> None:
        more = f", and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        super().__init__("; ".join(map(str, problems[:SHOWN])) + more)
        self.problems = problems


@dataclass(frozen=True, eq=False)
class Resource:
    """One named resource. Two resources have the same content if their versions are equal."""

    type_url: str
    name: str
    version: str
    """Digest of `body`."""
    body: bytes = field(repr=False)
    """The serialised message, without an envelope."""
    references: frozenset[Reference] = field(repr=False)

    @classmethod
    def of(cls, message: Message) -> Resource:
        """The resource with this message. Raises `BadResourceError`."""
        type_url = PREFIX + message.DESCRIPTOR.full_name
        body = message.SerializeToString(deterministic=True)
        return cls(type_url, _name(type_url, message), digest(body), body, references(message))

    @classmethod
    def parse(cls, type_url: str, body: bytes) -> Resource:
        """The resource with these serialised bytes, which are served as they are. Raises `BadResourceError`."""
        class_ = message_class(type_url.removeprefix(PREFIX))
        if class_ is None:
            raise BadResourceError(f"`{type_url}` is not a type that this server knows")
        try:
            message = class_.FromString(body)
        except DecodeError:
            raise BadResourceError(f"the bytes are no `{short(type_url)}`") from None
        return cls(type_url, _name(type_url, message), digest(body), body, references(message))


@dataclass(frozen=True, slots=True)
class Claimed:
    """A resource that a client claims to have from an earlier stream. The server does not have its bytes."""

    version: str


ClientResource = Resource | Claimed
"""A resource that a client has."""


@dataclass(frozen=True, eq=False)
class Collection:
    """All resources of one type, by name, in the order of names."""

    type_url: str
    resources: Mapping[str, Resource]

    @cached_property
    def version(self) -> str:
        return version_of(self.resources)

    @cached_property
    def referenced(self) -> Mapping[str, frozenset[str]]:
        """By type URL, the names that resources of the collection refer to."""
        names_by_type: dict[str, set[str]] = {}
        for resource in self.resources.values():
            for reference in resource.references:
                names_by_type.setdefault(reference.type_url, set()).add(reference.name)
        return {type_url: frozenset(names) for type_url, names in names_by_type.items()}

    def sharing(self, other: Collection) -> Collection:
        """The same collection, with the objects of another one for unchanged resources."""
        if self.version == other.version:
            return other
        held = other.resources
        return Collection(
            self.type_url,
            {
                name: held[name] if name in held and held[name].version == resource.version else resource
                for name, resource in self.resources.items()
            },
        )


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All resources of a group of clients."""

    collections: Mapping[str, Collection]
    elsewhere: frozenset[str] = frozenset()
    """Clusters that clients have from their bootstrap."""

    @classmethod
    def of(cls, resources: Iterable[Resource], *, elsewhere: Iterable[str] = ()) -> Snapshot:
        """The snapshot of these resources; `elsewhere` names clusters of the clients' own bootstraps.

        Missing endpoints of a cluster become an empty list, so that one missing list does not hold back the other
        resources. Raises `DuplicateResourceError`.
        """
        by_type: dict[str, dict[str, Resource]] = {}
        for resource in resources:
            names = by_type.setdefault(resource.type_url, {})
            if resource.name in names:
                raise DuplicateResourceError(resource.type_url, resource.name)
            names[resource.name] = resource
        for cluster in by_type.get(CLUSTER, {}).values():
            for reference in cluster.references:
                if reference.type_url == ENDPOINTS:
                    by_type.setdefault(ENDPOINTS, {}).setdefault(reference.name, no_endpoints(reference.name))
        return cls(
            {kind: Collection(kind, dict(sorted(by_type[kind].items()))) for kind in sorted(by_type)},
            frozenset(elsewhere),
        )

    def of_type(self, type_url: str) -> Collection:
        """The resources of one type; an empty collection if there are none."""
        return self.collections.get(type_url) or nothing(type_url)

    @cached_property
    def version(self) -> str:
        """A digest of all resources."""
        parts = (f"{kind}\0{collection.version}\0" for kind, collection in self.collections.items())
        return digest("".join(parts).encode())

    @cached_property
    def referenced(self) -> Mapping[str, frozenset[str]]:
        """By type URL, the names to which resources of the snapshot refer.

        If the resources of a single type refer to a type, the set of names belongs to the collection of these
        resources, which later snapshots may share.
        """
        names_by_type: dict[str, frozenset[str]] = {}
        for collection in self.collections.values():
            for type_url, names in collection.referenced.items():
                names_by_type[type_url] = names_by_type[type_url] | names if type_url in names_by_type else names
        return names_by_type

    def sharing(self, other: Snapshot) -> Snapshot:
        """The same snapshot, with the objects of another one for unchanged resources: streams compare identities."""
        return Snapshot(
            {kind: collection.sharing(other.of_type(kind)) for kind, collection in self.collections.items()},
            self.elsewhere,
        )

    def with_resources(self, resources: Iterable[Resource]) -> Snapshot:
        """The same snapshot with these resources, which take the place of those of the same type and name. The
        endpoints of a new cluster have to be among them."""
        by_type: dict[str, dict[str, Resource]] = {}
        for resource in resources:
            by_type.setdefault(resource.type_url, {})[resource.name] = resource
        changed = {
            kind: Collection(kind, dict(sorted({**self.of_type(kind).resources, **named}.items())))
            for kind, named in by_type.items()
        }
        collections = {**self.collections, **changed}
        return Snapshot({kind: collections[kind] for kind in sorted(collections)}, self.elsewhere)

    def dangling(self) -> tuple[Dangling, ...]:
        """All references to missing resources, in canonical order."""
        return tuple(
            Dangling(collection.type_url, resource.name, reference)
            for collection in self.collections.values()
            for resource in collection.resources.values()
            for reference in sorted(resource.references)
            if reference.name not in self.of_type(reference.type_url).resources
            and not (reference.type_url == CLUSTER and reference.name in self.elsewhere)
        )

    def check(self) -> None:
        """Raise `InconsistentSnapshotError` if a resource refers to one that does not exist."""
        problems = self.dangling()
        if problems:
            raise InconsistentSnapshotError(problems)


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """The changes from the resources that a client has to the resources of the target."""

    changed: Mapping[str, Resource]
    """Resources that are new or have another version."""
    removed: frozenset[str]
    kept: Mapping[str, ClientResource]
    """The resources of the client after `changed` and before `removed`."""


def difference(known: Mapping[str, ClientResource], wanted: Mapping[str, Resource]) -> Difference:
    """The changes that lead a client from `known` to `wanted`."""
    changed = {
        name: resource
        for name, resource in wanted.items()
        if (held := known.get(name)) is not resource and (held is None or held.version != resource.version)
    }
    removed = frozenset(known.keys() - wanted.keys())
    kept: Mapping[str, ClientResource] = wanted
    if removed:
        kept = dict(sorted([*wanted.items(), *((name, known[name]) for name in removed)]))
    return Difference(changed, removed, kept)


def digest(content: bytes) -> str:
    """64 bits of a hash, which is enough to avoid accidental collisions between versions of a resource."""
    return hashlib.sha256(content).hexdigest()[:16]


def version_of(resources: Mapping[str, ClientResource]) -> str:
    """One version for many resources, from their names and versions alone."""
    return digest("".join(f"{name}\0{resource.version}\0" for name, resource in resources.items()).encode())


@lru_cache(maxsize=64)
def nothing(type_url: str) -> Collection:
    """No resources of a type."""
    return Collection(type_url, {})


def no_endpoints(name: str) -> Resource:
    """An empty list of endpoints for a name that the snapshot does not have, so that the client's cluster need not
    wait.

    Clients choose these names, so any string is possible. The result is not kept, and must be fast for 100,000 names.
    """
    body = text_field(_CLUSTER_NAME, name)
    return Resource(ENDPOINTS, name, digest(body), body, frozenset())


def _name(type_url: str, message: Any) -> str:
    name = getattr(message, NAME_FIELD.get(type_url, "name"), "")
    if not isinstance(name, str) or not name:
        raise BadResourceError(f"a `{short(type_url)}` has no name")
    return name
