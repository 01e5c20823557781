"""The manifest of the kept state: where the rollout is, and which objects belong to it, by digest.

    Manifest --to_json--> state.json --from_json--> Manifest

It has the state of the rollout, all plans that proxies may have, the snapshots that they acknowledged last, and frozen
chains. The version before the present one is read, since an upgrade starts from it, and none that is older.

The content may have been touched by a power cut or a hand, so every field is checked. It has the secret of the markers:
the file is for its owner alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from admc.rollout.rollout_state import RolloutState
from admc.typed_json import JsonTypeError, parse, plain
from emitters.envoy import Mode

SCHEMA_VERSION: Final = 3
OF_SECOND_VERSION: Final = 2
SECRET_BYTES: Final = 32
MAX_SERVICES: Final = 100_000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ManifestError(Exception):
    """The content is not what this admc writes. The message says what is wrong."""


class OldManifestError(ManifestError):
    """The content has a version that this admc no longer reads."""


class RecipeDigests(NamedTuple):
    """What a plan is made from: the digests of the objects."""

    main: str
    """The program's path among the inputs."""
    mode: Mode
    inputs: Mapping[str, str]
    plan: str
    endpoints: str | None

    @property
    def objects(self) -> frozenset[str]:
        """The digests of all its objects."""
        return frozenset({*self.inputs.values(), self.plan} | (set() if self.endpoints is None else {self.endpoints}))


class SavedSnapshot(NamedTuple):
    """A snapshot, or resources of one, as an object."""

    object: str
    elsewhere: tuple[str, ...]
    """Names of clusters that proxies have from their bootstrap."""


class Manifest(NamedTuple):
    """What `state.json` says."""

    rollout: RolloutState | None
    """None before there is a plan."""
    plans: Mapping[str, RecipeDigests]
    """Every plan that the rollout names."""
    groups: Mapping[str, SavedSnapshot]
    """Service -> the snapshot that its proxies acknowledged last."""
    frozen: Mapping[str, SavedSnapshot] = MappingProxyType({})
    """Service -> the resources that older connections may use."""

    @property
    def objects(self) -> frozenset[str]:
        """The digests of all objects that belong to it; all others are garbage."""
        saved = (*self.groups.values(), *self.frozen.values())
        return frozenset({each.object for each in saved}.union(*(each.objects for each in self.plans.values())))

    @property
    def under_way(self) -> bool:
        """Whether proxies may have more than one plan, as far as it says."""
        return self.rollout is not None and len(self.rollout.may_have) > 1


class _Document(NamedTuple):
    schema_version: int
    rollout: RolloutState | None
    plans: Mapping[str, RecipeDigests]
    groups: Mapping[str, SavedSnapshot]
    frozen: Mapping[str, SavedSnapshot]


def to_json(manifest: Manifest) -> bytes:
    """The content of `state.json`."""
    return (json.dumps(plain(_Document(SCHEMA_VERSION, *manifest)), sort_keys=True) + "\n").encode()


def from_json(content: bytes) -> Manifest:
    """The manifest that a file has. Raises `ManifestError`."""
    document = _document(content)
    try:
        manifest = Manifest(*parse(_Document, document)[1:])
    except JsonTypeError as error:
        raise ManifestError(f"`{error.where or 'the document'}` {error.what}") from error
    _check(manifest)
    return manifest


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ManifestError("it is not JSON; the file may be cut short") from error
    version = document.get("schema_version") if isinstance(document, dict) else None
    if type(version) is not int or version < 1:
        raise ManifestError("it has no `schema_version`")
    if version > SCHEMA_VERSION:
        raise ManifestError(f"it has schema version {version}, and this admc reads up to {SCHEMA_VERSION}")
    if version < OF_SECOND_VERSION:
        raise OldManifestError(
            f"it has schema version {version}, and this admc reads {OF_SECOND_VERSION} and {SCHEMA_VERSION}"
        )
    return document if version != OF_SECOND_VERSION else _from_second_version(document)


def _from_second_version(document: dict[str, Any]) -> dict[str, Any]:
    """It kept the labels that a rollout was taken back from in their place, marked; now they come first. And it had the
    chains by service."""
    rollout = document.get("rollout")
    try:
        if rollout is not None:
            held = sorted(rollout["may_have"], key=lambda each: not each["left"])
            held = [{name: value for name, value in each.items() if name != "left"} for each in held]
            kept = [
                {"service": service, "name": name} for service in rollout["kept"] for name in rollout["kept"][service]
            ]
            rollout = {**rollout, "may_have": held, "kept": kept}
    except (AttributeError, KeyError, TypeError) as error:
        raise ManifestError("its rollout is not what admc stores") from error
    return {**document, "rollout": rollout}


def _check(manifest: Manifest) -> None:
    """What the types do not say. Raises `ManifestError`."""
    if not all(map(_DIGEST.fullmatch, manifest.objects)):
        raise ManifestError("an object of it is not named by a digest")
    if max(len(manifest.groups), len(manifest.frozen)) > MAX_SERVICES:
        raise ManifestError(f"it has more than {MAX_SERVICES:,} services")
    for name, recipe in manifest.plans.items():
        if recipe.main not in recipe.inputs:
            raise ManifestError(f"its plan `{name[:100]}` lacks the program")
    state = manifest.rollout
    if state is None:
        return
    missing = plans_of(state) - manifest.plans.keys()
    if missing:
        raise ManifestError(f"it lacks the plan `{min(missing)[:100]}`, which proxies may have")
    if state.aborted is not None and state.aborted != state.queued:
        raise ManifestError("its aborted plan is not the newest one")
    if len(state.secret) != SECRET_BYTES:
        raise ManifestError("its secret has another length")
    _check_labels(state)
    others = manifest.plans.keys() - plans_of(state)
    if others:
        raise ManifestError(f"it has the plan `{min(others)[:100]}`, which no proxy may have")


def _check_labels(state: RolloutState) -> None:
    labels = [holding.label for holding in state.may_have]
    if labels.count(state.now) != 1 or len(set(labels)) < len(labels):
        raise ManifestError("what is published is not once among what proxies may have")
    if sum(holding.proven for holding in state.may_have) > 1:
        raise ManifestError("more than one label is proven")
    for label in labels:
        at_rest = label.goal is None
        if at_rest is not (label.step is None) or at_rest is not (label.move == 0) or label.move > state.moves:
            raise ManifestError("a label of it is neither a plan at rest nor a step of a move")
    if state.back and state.now.goal is None:
        raise ManifestError("a plan at rest is not on the way back")


def plans_of(state: RolloutState) -> frozenset[str]:
    """The plans that a state names: those that proxies may have, and the newest one."""
    found = frozenset[str]().union(*(holding.label.plans for holding in state.may_have))
    return found | ({state.queued} if state.queued is not None else frozenset())
