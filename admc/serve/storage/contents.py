"""Converts the state that survives a restart to a manifest with objects by digest, and back.

    StoredState <--Contents--> Manifest, objects

This module does not know where the manifest and the objects are stored.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from envoy.service.discovery.v3 import discovery_pb2
from google.protobuf.message import DecodeError

from admc.serve.storage.manifest import Manifest, ManifestError, RecipeDigests, SavedSnapshot
from admc.serve.storage.position import Position, Recipe, StoredState
from emitters.envoy import Mode
from xds_server.resources.snapshot import Resource, Snapshot, SnapshotError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def serialised(snapshot: Snapshot) -> bytes:
    """Return the content of the object of a snapshot."""
    response = discovery_pb2.DiscoveryResponse()
    for collection in snapshot.collections.values():
        for resource in collection.resources.values():
            response.resources.add(type_url=resource.type_url, value=resource.body)
    content: bytes = response.SerializeToString(deterministic=True)
    return content


def parsed(content: bytes, elsewhere: Iterable[str]) -> Snapshot:
    """Return the snapshot in an object. Raises `ManifestError`."""
    try:
        response = discovery_pb2.DiscoveryResponse.FromString(content)
        resources = (Resource.parse(item.type_url, item.value) for item in response.resources)
        snapshot = Snapshot.of(resources, elsewhere=elsewhere)
        snapshot.check()
    except (DecodeError, SnapshotError) as error:
        raise ManifestError(f"its snapshot cannot be used: {error}") from error
    return snapshot


MAX_MANIFEST: Final = 64_000_000
MAX_OBJECT: Final = 256_000_000
MAX_TOTAL: Final = 4_000_000_000
"""The limit in bytes of all snapshots together, and of the inputs of all plans together."""


class Objects(Protocol):
    """Contents by digest."""

    def get(self, digest: str) -> bytes:
        """Return the content of an object. Raises `ManifestError` if the object is missing or damaged."""

    def put(self, content: bytes) -> str:
        """Store an object, if it is absent, and return its digest. Raises `CommandError`."""


class Contents:
    """The contents of a manifest. A snapshot whose object is stored already is not serialised again."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._versions: dict[SavedSnapshot, str] = {}
        """Versions of the snapshots that are there."""

    def clear(self) -> None:
        """Forget which objects are stored."""
        self._versions.clear()

    def forget_all_but(self, digests: frozenset[str]) -> None:
        self._versions = {item: version for item, version in self._versions.items() if item.object in digests}

    def load(self, manifest: Manifest, known: Mapping[SavedSnapshot, Snapshot] | None = None) -> StoredState:
        """Return the state of a manifest. Raises `ManifestError` if a plan cannot be read. A snapshot that cannot be
        read is one of `problems`. `known` has snapshots that were parsed before."""
        objects = self._inputs(frozenset[str]().union(*(recipe.objects for recipe in manifest.plans.values())))
        plans = {name: _recipe_of(recipe, objects) for name, recipe in manifest.plans.items()}
        problems: list[str] = []
        groups = self._snapshots(manifest.groups, known or {}, problems)
        frozen = self._snapshots(manifest.frozen, known or {}, problems)
        position = None if manifest.rollout is None else Position(manifest.rollout, plans, frozen)
        return StoredState(position, groups, tuple(problems))

    def store(self, old: Manifest, position: Position | None, groups: Mapping[str, Snapshot]) -> Manifest:
        """Store the objects of a state, and return its manifest. Without a position, the manifest keeps that of `old`.
        Raises `CommandError`."""
        saved = {name: self._put_group(old.groups.get(name), snapshot) for name, snapshot in groups.items()}
        if position is None:
            return replace(old, groups=saved)
        plans = {name: self._put_recipe(recipe) for name, recipe in position.plans.items()}
        frozen = {name: self._put_group(old.frozen.get(name), item) for name, item in position.frozen.items()}
        return Manifest(position.rollout, plans, saved, frozen)

    def _snapshots(
        self, saved: Mapping[str, SavedSnapshot], known: Mapping[SavedSnapshot, Snapshot], problems: list[str]
    ) -> dict[str, Snapshot]:
        snapshots: dict[str, Snapshot] = {}
        left = MAX_TOTAL
        for name, item in sorted(saved.items()):
            try:
                content = self._objects.get(item.object)
                left -= len(content)
                if left < 0:
                    raise _too_large("its snapshots have")
                snapshots[name] = known.get(item) or parsed(content, item.elsewhere)
            except ManifestError as error:
                problems.append(f"`{name}`: {error}")
            else:
                self._versions[item] = snapshots[name].version
        return snapshots

    def _inputs(self, digests: frozenset[str]) -> dict[str, bytes]:
        """Return the objects of all plans. An object that several plans share is read once."""
        contents: dict[str, bytes] = {}
        left = MAX_TOTAL
        for digest in sorted(digests):
            contents[digest] = self._objects.get(digest)
            left -= len(contents[digest])
            if left < 0:
                raise _too_large("its plans have")
        return contents

    def _put_recipe(self, recipe: Recipe) -> RecipeDigests:
        return RecipeDigests(
            recipe.main,
            Mode(recipe.mode),
            {path: self._objects.put(content) for path, content in sorted(recipe.inputs.items())},
            self._objects.put(recipe.plan),
            None if recipe.endpoints is None else self._objects.put(recipe.endpoints),
        )

    def _put_group(self, before: SavedSnapshot | None, snapshot: Snapshot) -> SavedSnapshot:
        elsewhere = tuple(sorted(snapshot.elsewhere))
        if before is not None and self._versions.get(before) == snapshot.version and before.elsewhere == elsewhere:
            return before
        saved = SavedSnapshot(self._objects.put(serialised(snapshot)), elsewhere)
        self._versions[saved] = snapshot.version
        return saved


def _recipe_of(recipe: RecipeDigests, objects: Mapping[str, bytes]) -> Recipe:
    return Recipe(
        recipe.main,
        recipe.mode,
        {path: objects[digest] for path, digest in recipe.inputs.items()},
        objects[recipe.plan],
        None if recipe.endpoints is None else objects[recipe.endpoints],
    )


def _too_large(what: str) -> ManifestError:
    return ManifestError(f"{what} more than {MAX_TOTAL // 1_000_000_000} GB")
