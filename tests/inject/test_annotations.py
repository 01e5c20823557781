"""The annotations by which the identity webhooks of EKS and Azure leave admc's containers out."""

from __future__ import annotations

import csv
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from admc.kubernetes.inject.annotations import SEPARATORS, skipping_own
from admc.kubernetes.inject.containers import NAMES
from admc.kubernetes.inject.model import NOTHING, Installation, PodNeeds
from admc.kubernetes.inject.template import injected
from emitters.interception.pod import PodCaptures
from tests.properties import examples

HERE = Installation("one", "admc-one.default.svc:18000", "admc:1", "envoy:1")
RATE = PodNeeds("hotel/rate", PodCaptures(frozenset({9000})), waits=True)
CALLER = PodNeeds("hotel/search", None, waits=True)
EKS, AZURE = "eks.amazonaws.com/skip-containers", "azure.workload.identity/skip-containers"
OURS = {EKS: "admc-rules,admc-proxy,admc-wait", AZURE: "admc-rules;admc-proxy;admc-wait"}


def made(given: dict[str, Any], needs: PodNeeds) -> dict[str, Any]:
    found = injected(given, needs, HERE)
    assert found.template is not None, found.findings
    return dict(found.template)


def template(**metadata: Any) -> dict[str, Any]:
    return {"metadata": metadata, "spec": {"containers": [{"name": "rate"}]}}


def test_pods_with_containers_of_admc_get_them_and_others_do_not() -> None:
    for needs in (RATE, CALLER):
        assert made(template(labels={"app": "rate"}), needs)["metadata"] == {
            "labels": {"app": "rate"},
            "annotations": OURS,
        }
        assert made({"spec": template()["spec"]}, needs)["metadata"] == {"annotations": OURS}
        assert made(template(annotations=None), needs)["metadata"] == {"annotations": OURS}
    windows = {**template(), "spec": {**template()["spec"], "os": {"name": "windows"}}}
    assert made(windows, CALLER) == windows


def test_names_of_the_user_stay() -> None:
    annotations = {"a": "b", EKS: "mine,theirs", AZURE: "mine"}
    both = made(template(annotations=annotations), RATE)
    assert both["metadata"]["annotations"] == {"a": "b", EKS: f"{OURS[EKS]},mine,theirs", AZURE: f"{OURS[AZURE]};mine"}
    assert made(both, RATE) == both
    assert made(both, NOTHING)["metadata"]["annotations"] == annotations


def test_nothing_is_left_where_nothing_was() -> None:
    plain = template(labels={"app": "rate"})
    assert made(made(plain, RATE), NOTHING)["metadata"] == plain["metadata"]


VALUES = st.text(st.sampled_from('a,; "\n-'), max_size=12) | st.sampled_from(["", "admc-x", " other ", "a, b"])


@examples(200)
@given(st.dictionaries(st.sampled_from([EKS, AZURE, "x"]), VALUES))
def test_what_is_taken_out_is_exactly_what_was_put_in(annotations: dict[str, str]) -> None:
    both = skipping_own(annotations, is_injected=True)
    assert skipping_own(both, is_injected=True) == both
    assert skipping_own(both, is_injected=False) == annotations
    assert skipping_own(annotations, is_injected=False) == annotations


@pytest.mark.parametrize("value", ["", "a", "a,b", "a\nb", "a b,"])
def test_the_webhooks_read_the_names(value: str) -> None:
    """EKS reads one line of CSV, without spaces around names; Azure splits at semicolons."""
    both = skipping_own({EKS: value, AZURE: value.replace(",", ";")}, is_injected=True)
    assert next(csv.reader(both[EKS].splitlines()))[:3] == list(NAMES)
    assert [name.strip() for name in both[AZURE].split(";")][:3] == list(NAMES)
    assert SEPARATORS.keys() == both.keys()


@pytest.mark.parametrize(
    ("metadata", "where"),
    [
        ("x", ("metadata",)),
        ({"annotations": ["x"]}, ("metadata", "annotations")),
        ({"annotations": {EKS: 5}}, ("metadata", "annotations", EKS)),
        ({"annotations": {AZURE: None}}, ("metadata", "annotations", AZURE)),
    ],
)
def test_annotations_of_another_type_are_refused(metadata: Any, where: tuple[str, ...]) -> None:
    found = injected({**template(), "metadata": metadata}, RATE, HERE)
    assert found.template is None
    assert [(finding.code, finding.where) for finding in found.findings] == [("ADM920", where)]
