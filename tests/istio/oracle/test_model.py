"""What `admc advise` holds to be in force is what Istio's own code puts into the configuration of each proxy."""

from __future__ import annotations

from collections import Counter

import pytest

from admc.istio.in_force.effects import Cause
from admc.istio.in_force.judge import in_force
from admc.istio.in_force.unused import unused
from admc.manifests.documents import at
from tests.istio.objects import mesh_of
from tests.istio.oracle import effects, recording
from tests.istio.oracle.answers import differences
from tests.istio.oracle.by_hand import CASES
from tests.istio.oracle.facts import answer, limits_in
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


@pytest.mark.parametrize("case", MESHES, ids=lambda case: case.name)
def test_what_is_in_force_nowhere_is_in_the_configuration_of_no_proxy(case: Case, recorded: Recording) -> None:
    """Also of no gateway: a route of one may lead to a subset that no sidecar has."""
    proxies = recorded.proxies(case.request()).values()
    resources = {name for facts in proxies for name in effects.resources_of(facts)}
    limits = {number for facts in proxies for number in effects.limits_of(facts)}
    mesh, _ = mesh_of(*case.documents())
    for it in unused(mesh, in_force(mesh)):
        manifest = it.resource.object
        part = at(manifest.data, it.resource.where)
        assert limits.isdisjoint(limits_in(part)), it
        if not it.resource.where and it.cause is not Cause.DEFAULT:
            assert f"{manifest.kind} {manifest.namespace}/{manifest.name}" not in resources, it


def test_gateways_have_routes_that_no_sidecar_has(recorded: Recording) -> None:
    """So the test above would notice a subset that only they use."""
    (case,) = [it for it in MESHES if it.name == "an ingress gateway"]
    proxies = recorded.proxies(case.request())
    with_route = {name for name, facts in proxies.items() if "VirtualService shop/edge" in effects.resources_of(facts)}
    assert with_route == {"istio-system/gate-1"}
    assert effects.limits_of(proxies["istio-system/gate-1"]) == {51}
    mesh, _ = mesh_of(*case.documents())
    assert [it.resource.where for it in unused(mesh, in_force(mesh))] == [("spec", "subsets", 1)]


def test_effects_of_each_kind_are_compared(recorded: Recording) -> None:
    kinds: Counter[str] = Counter()
    for case in MESHES:
        istio = effects.of_istio(case, recorded.proxies(case.request()))
        kinds.update(effect.resource.split()[0] for effect in istio)
    for kind in ("VirtualService", "DestinationRule", "AuthorizationPolicy", "EnvoyFilter", "RequestAuthentication"):
        assert kinds[kind] > 50, kind
