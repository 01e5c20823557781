"""The kept state of a rollout comes back as it was, and what is damaged or hostile is refused with a reason."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from admc.serve.rollout.model import StepName
from admc.serve.rollout.rollout_state import Chain, Holding, Label, RolloutState, begun
from admc.serve.storage.manifest import (
    Manifest,
    ManifestError,
    OldManifestError,
    RecipeDigests,
    SavedSnapshot,
    from_json,
    plans_of,
    to_json,
)
from emitters.envoy import Mode
from tests.serve.rollout.simulate import Simulation

if TYPE_CHECKING:
    from collections.abc import Callable

A, B, C = "a" * 64, "b" * 64, "c" * 64
RECIPE = RecipeDigests("policies.adm", Mode.REDIRECT, {"policies.adm": A}, B, None)
SECRET = bytes(range(32))
STATE = RolloutState(
    Label("old", "new", StepName.SENDERS, 7),
    (
        Holding(Label("old"), frozenset(("web",)), proven=True),
        Holding(Label("old", "new", StepName.SENDERS, 7), frozenset(("web", "cart"))),
    ),
    back=True,
    moves=7,
    secret=SECRET,
    queued="newest",
    aborted="newest",
    kept=frozenset((Chain("web", "egress/cart:80@1"), Chain("web", "egress/cart:80@2"))),
)
MANIFEST = Manifest(
    STATE,
    dict.fromkeys(("old", "new", "newest"), RECIPE),
    {"web": SavedSnapshot(C, ("own",))},
    {"web": SavedSnapshot(A, ())},
)


def test_a_manifest_comes_back_as_it_was() -> None:
    assert from_json(to_json(MANIFEST)) == MANIFEST
    assert MANIFEST.objects == {A, B, C}
    assert SECRET.hex() not in repr(from_json(to_json(MANIFEST)))


def second_version() -> dict[str, Any]:
    """`MANIFEST` as the second schema version had it, with a label that the rollout was taken back from."""
    document = json.loads(to_json(MANIFEST))
    old, now = document["rollout"]["may_have"]
    other = {"label": {**old["label"], "base": "newest"}, "services": ["cart"], "left": True, "proven": False}
    document["rollout"]["may_have"] = [{**old, "left": False}, other, {**now, "left": False}]
    document["rollout"]["kept"] = {"web": ["egress/cart:80@1", "egress/cart:80@2"]}
    return {**document, "schema_version": 2}


def test_the_second_schema_version_is_read() -> None:
    left = Holding(Label("newest"), frozenset(("cart",)))
    found = from_json(json.dumps(second_version()).encode())
    assert found == replace(MANIFEST, rollout=replace(STATE, may_have=(left, *STATE.may_have)))
    assert from_json(json.dumps({**second_version(), "rollout": None, "plans": {}}).encode()).rollout is None


@pytest.mark.parametrize(
    "spoilt", [3, [], {}, {"may_have": 3}, {"may_have": [{}]}, {"may_have": [], "kept": {"web": 3}}]
)
def test_a_damaged_second_schema_version_is_refused(spoilt: object) -> None:
    with pytest.raises(ManifestError):
        from_json(json.dumps({**second_version(), "rollout": spoilt}).encode())


@pytest.mark.parametrize("seed", range(20))
def test_every_state_of_a_simulation_comes_back(seed: int) -> None:
    simulation = Simulation(seed)
    for _ in range(200):
        simulation.step()
        state = simulation.disk
        whole = RolloutState(**{**_fields(state), "secret": SECRET})
        manifest = Manifest(whole, dict.fromkeys(plans_of(whole), RECIPE), {})
        assert from_json(to_json(manifest)).rollout == whole


def _fields(state: RolloutState) -> dict[str, Any]:
    return {name: getattr(state, name) for name in RolloutState.__dataclass_fields__}


def test_the_first_schema_version_is_refused() -> None:
    document = {"schema_version": 1, "state": None, "groups": {}}
    with pytest.raises(OldManifestError, match="it has schema version 1, and this admc reads 2 and 3"):
        from_json(json.dumps(document).encode())


@pytest.mark.parametrize("text", ["", "../lock", "A" * 64, "a" * 63])
@pytest.mark.parametrize("field", ["plan", "endpoints", "inputs"])
def test_a_reference_that_is_not_a_digest_is_refused(field: str, text: str) -> None:
    value = {"policies.adm": text} if field == "inputs" else text
    with pytest.raises(ManifestError, match="digest"):
        from_json(edited(lambda document: document["plans"]["old"].update({field: value})))


def edited(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(to_json(MANIFEST))
    change(document)
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda it: it.update(schema_version=4), "it has schema version 4, and this admc reads 3"),
        (lambda it: it.update(schema_version="2"), "it has no `schema_version`"),
        (lambda it: it.pop("plans"), "`the document` lacks `plans`"),
        (lambda it: it.update(more=1), "`the document` has an unknown field `more`"),
        (lambda it: it["plans"].pop("old"), "it lacks the plan `old`, which proxies may have"),
        (lambda it: it["plans"].update(other=it["plans"]["old"]), "it has the plan `other`, which no proxy may have"),
        (lambda it: it["plans"]["old"].update(main="x"), "its plan `old` lacks the program"),
        (lambda it: it["plans"]["old"].update(plan="../x"), "an object of it is not named by a digest"),
        (lambda it: it["groups"]["web"].update(object="/etc/passwd"), "an object of it is not named by a digest"),
        (lambda it: it["rollout"]["may_have"].pop(), "what is published is not once among what proxies may have"),
        (lambda it: it["rollout"]["now"].update(step="never"), "`rollout.now.step` must be"),
        (lambda it: it["rollout"]["now"].update(move=-1), "`rollout.now.move` must be at least 0"),
        (lambda it: it["rollout"]["may_have"][0]["label"].update(move=3), "neither a plan at rest nor a step"),
        (lambda it: it["rollout"].update(moves=6), "neither a plan at rest nor a step"),
        (lambda it: it["rollout"]["may_have"][1].update(proven=True), "more than one label is proven"),
        (lambda it: it["rollout"].update({"secret": "&"}), "`rollout.secret` must be in base 64"),
        (lambda it: it["rollout"].update({"secret": ""}), "its secret has another length"),
        (lambda it: it["rollout"].update(aborted="old"), "its aborted plan is not the newest one"),
        (lambda it: it["rollout"].update(kept={"web": "x"}), "`rollout.kept` must be a list"),
    ],
)
def test_what_is_wrong_is_refused_with_a_reason(change: Callable[[dict[str, Any]], object], said: str) -> None:
    with pytest.raises(ManifestError) as error:
        from_json(edited(change))
    assert said in str(error.value)


def test_a_damaged_manifest_is_refused_or_means_the_same() -> None:
    chance, content = random.Random(3), to_json(MANIFEST)  # noqa: S311 - reproducible, not secret
    refused = 0
    for _ in range(3000):
        at = chance.randrange(len(content))
        damaged = content[:at] + bytes((chance.randrange(256),)) * chance.randrange(2) + content[at + 1 :]
        try:
            found = from_json(damaged)
        except ManifestError:
            refused += 1
        else:
            assert isinstance(found, Manifest)
    assert refused > 2000
    for size in range(0, len(content) - 1, 7):
        with pytest.raises(ManifestError):
            from_json(content[:size])


def test_a_new_folder_has_one_plan_at_rest() -> None:
    manifest = Manifest(begun("first", SECRET), {"first": RECIPE}, {})
    assert from_json(to_json(manifest)) == manifest
