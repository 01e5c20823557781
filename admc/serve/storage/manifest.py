"""Reads and writes the manifest of the stored state: the state of the rollout, and its objects by digest.

    Manifest --to_json--> state.json --from_json--> Manifest

It contains the state of the rollout, all plans that proxies may have, the snapshots that they acknowledged last, and
the
resources for older connections. The previous schema version is read too, because an upgrade starts from it; an older
version is refused.

A power cut or a person may have altered the content, so every field is checked. It contains the secret of the markers,
so only its owner may read the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal

from admc.serve.rollout.rollout_state import Chain, Holding, Label, RolloutState
from dsl.documents import Bytes, Count, DocumentError, VersionError, plain, read, record
from emitters.envoy import Mode

SECRET_BYTES: Final = 32
MAX_SERVICES: Final = 100_000
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class ManifestError(Exception):
    """The content differs from what this admc writes. The message names the fault."""


class OldManifestError(ManifestError):
    """The content has a version that this admc no longer reads."""


@record
class RecipeDigests:
    """The digests of the objects from which a plan is made."""

    main: str
    """The program's path among the inputs."""
    mode: Mode
    inputs: Mapping[str, str]
    plan: str
    endpoints: str | None

    @property
    def objects(self) -> frozenset[str]:
        """The digests of all objects of the plan."""
        return frozenset({*self.inputs.values(), self.plan} | (set() if self.endpoints is None else {self.endpoints}))


@record
class SavedSnapshot:
    """An object with a snapshot, or with resources of one."""

    object: str
    elsewhere: tuple[str, ...]
    """Names of clusters that proxies have from their bootstrap."""


@record
class Manifest:
    """The content of `state.json`."""

    rollout: RolloutState | None
    """None before the first plan."""
    plans: Mapping[str, RecipeDigests]
    """Digest -> every plan that the rollout names."""
    groups: Mapping[str, SavedSnapshot]
    """Service -> the snapshot that its proxies acknowledged last."""
    frozen: Mapping[str, SavedSnapshot] = field(default_factory=dict)
    """Service -> the resources that older connections may use."""
    schema_version: Literal[3] = 3

    @property
    def objects(self) -> frozenset[str]:
        """The digests of all objects that belong to the manifest. All other objects are garbage."""
        saved = (*self.groups.values(), *self.frozen.values())
        return frozenset(
            {saved_item.object for saved_item in saved}.union(
                *(saved_item.objects for saved_item in self.plans.values())
            )
        )

    @property
    def under_way(self) -> bool:
        """Whether proxies may have more than one plan, by this manifest."""
        return self.rollout is not None and len(self.rollout.may_have) > 1


@record
class _SecondHolding:
    label: Label
    services: frozenset[str]
    proven: bool
    left: bool
    """Whether the rollout was taken back from the label."""


@record
class _SecondState:
    now: Label
    may_have: tuple[_SecondHolding, ...]
    back: bool
    moves: Count
    secret: Bytes
    queued: str | None
    aborted: str | None
    kept: Mapping[str, tuple[str, ...]]
    """Service -> names of chains."""

    @property
    def state(self) -> RolloutState:
        """The state in the third version, where the labels from which a rollout was taken back come first, without a
        mark."""
        held = (
            Holding(holding.label, holding.services, proven=holding.proven)
            for holding in sorted(self.may_have, key=lambda holding: not holding.left)
        )
        kept = frozenset(Chain(service, name) for service, names in self.kept.items() for name in names)
        return RolloutState(self.now, tuple(held), self.back, self.moves, self.secret, self.queued, self.aborted, kept)


@record
class _SecondManifest:
    """The content of `state.json` in its second version."""

    rollout: _SecondState | None
    plans: Mapping[str, RecipeDigests]
    groups: Mapping[str, SavedSnapshot]
    frozen: Mapping[str, SavedSnapshot]
    schema_version: Literal[2]

    @property
    def manifest(self) -> Manifest:
        rollout = None if self.rollout is None else self.rollout.state
        return Manifest(rollout, self.plans, self.groups, self.frozen)


def to_json(manifest: Manifest) -> bytes:
    """The content of `state.json`."""
    return (json.dumps(plain(manifest), sort_keys=True) + "\n").encode()


def from_json(content: bytes) -> Manifest:
    """Return the manifest in a file. Raises `ManifestError`."""
    try:
        manifest = _read(content)
    except VersionError as error:
        if error.newer:
            raise ManifestError(error.message) from error
        raise OldManifestError(f"it has schema version {error.version}, and this admc reads 2 and 3") from error
    except DocumentError as error:
        raise ManifestError(error.message) from error
    _check(manifest)
    return manifest


def _read(content: bytes) -> Manifest:
    try:
        return read(Manifest, content)
    except VersionError as error:
        if error.newer:
            raise
    return read(_SecondManifest, content).manifest


def _check(manifest: Manifest) -> None:
    """Check the rules that the types do not express. Raises `ManifestError`."""
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
    """Return the plans that a state names: those that proxies may have, and the newest one."""
    names = frozenset[str]().union(*(holding.label.plans for holding in state.may_have))
    return names | ({state.queued} if state.queued is not None else frozenset())
