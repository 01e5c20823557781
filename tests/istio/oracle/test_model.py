"""What `admc advise` holds to be in force is what Istio's own code puts into the configuration of each proxy."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.istio.oracle import effects, recording
from tests.istio.oracle.answers import differences
from tests.istio.oracle.by_hand import CASES
from tests.istio.oracle.facts import answer
from tests.istio.oracle.meshes import Case, random_mesh
from tests.istio.oracle.model import model_answer
from tests.istio.oracle.recording import RANDOM_MESHES, Recording

MESHES = [*(expected.case for expected in CASES), *map(random_mesh, range(RANDOM_MESHES))]


@pytest.fixture(scope="module")
def recorded() -> Recording:
    return recording.read()


@pytest.mark.parametrize("case", MESHES, ids=lambda case: case.name)
def test_the_model_agrees_with_istio(case: Case, recorded: Recording) -> None:
    istio = answer(case, recorded.proxies(case.request()))
    assert differences(istio, model_answer(case)) == []


@pytest.mark.parametrize("case", MESHES, ids=lambda case: case.name)
def test_the_effects_that_are_counted_are_those_of_istio(case: Case, recorded: Recording) -> None:
    istio = effects.of_istio(case, recorded.proxies(case.request()))
    model = effects.of_model(case)
    assert sorted(istio - model) == []
    assert sorted(model - istio) == []


def test_effects_of_each_kind_are_compared(recorded: Recording) -> None:
    kinds: Counter[str] = Counter()
    for case in MESHES:
        istio = effects.of_istio(case, recorded.proxies(case.request()))
        kinds.update(effect.resource.split()[0] for effect in istio)
    for kind in ("VirtualService", "DestinationRule", "AuthorizationPolicy", "EnvoyFilter", "RequestAuthentication"):
        assert kinds[kind] > 50, kind
