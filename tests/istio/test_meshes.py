"""Ten meshes whose numbers were counted by hand: every number is equal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admc.istio.advice import Advice
from admc.istio.calls import Measured
from admc.istio.reasons import Group
from admc.manifests.places import span_of
from tests.istio.ten_meshes import COUNTS, FOLDER, as_json, outcome


def counted(advice: Advice) -> dict[str, Any]:
    groups = {total.group: total.sidecars for total in advice.answer.totals}
    return {
        "sidecars": advice.sidecars,
        "pods": advice.pods,
        "gateways": advice.gateways,
        "kept": advice.answer.kept,
        "layer_4": advice.answer.of_connections,
        "written": groups.get(Group.POLICY, 0),
        "mtls": groups.get(Group.MTLS, 0),
        "unasked": {str(cost.feature): cost.sidecars for cost in advice.features},
        "not_in_force": len(advice.nowhere),
        "reasons": {it.name: [it.sidecars, it.alone, int(it.layer)] for it in advice.answer.reasons},
        **_of_calls(advice.measured),
    }


def _of_calls(measured: Measured | None) -> dict[str, Any]:
    if measured is None:
        return {}
    if measured.guesses is None:
        return {"days": measured.days}
    return {"guesses": {f"{call.namespace}/{call.workload}": call.host for call, *_ in measured.guesses}}


@pytest.mark.parametrize("case", COUNTS)
def test_every_number_is_as_it_was_counted_by_hand(case: str) -> None:
    expected = {
        key: value for key, value in COUNTS[case].items() if key not in ("mesh", "calls", "guess", "keep", "injected")
    }
    made = outcome(case)
    if not expected.get("declared", True):
        assert made.advice is None
        assert [item.code for item in made.findings] == ["ADM915"]
        return
    assert made.advice is not None
    assert counted(made.advice) == expected
    assert made.exit_code == 0


def test_there_are_ten_meshes_and_each_is_counted() -> None:
    files = {path.stem for path in FOLDER.glob("*.yaml")}
    assert len(files) == 10
    assert {value.get("mesh", key) for key, value in COUNTS.items()} == files


def test_the_answer_as_json_has_the_same_numbers() -> None:
    made: Any = json.loads(as_json("principals"))
    assert (made["kept"], made["free"]) == ({"sidecars": 6, "of_layer_4_alone": 6, "features": []}, 3)
    assert [(it["reason"], it["sidecars"], it["alone"]) for it in made["reasons"]] == [
        ("AuthorizationPolicy shop/pay-callers", 4, 3),
        ("AuthorizationPolicy shop/cart-callers", 3, 2),
    ]
    cart = next(it for it in made["workloads"] if it["name"] == "cart")
    assert {it["reason"]: it["does"] for it in cart["reasons"]} == {
        "AuthorizationPolicy shop/pay-callers": ["the identity of the caller"],
        "AuthorizationPolicy shop/cart-callers": ["authorization"],
    }


def test_the_line_of_a_place_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, Any]] = []

    def span(document: Any, where: Any) -> Any:
        asked.append((document.start, where))
        return span_of(document, where)

    monkeypatch.setattr("admc.istio.facts.span_of", span)
    assert as_json("deny_all").count('"path"') > len(asked) == len(set(asked))
