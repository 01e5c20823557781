"""Which pods are those of a Service, by its selector and its annotation."""

from __future__ import annotations

import pytest

from admc.kubernetes.inject.names import POD_LABELS
from admc.kubernetes.inject.selectors import MAX_TEXT, Selected, selected

BLUE = {"app": "cart", "colour": "blue", "marker": ""}


def test_without_an_annotation_the_selector_counts() -> None:
    assert selected(BLUE, {}) == selected(BLUE, {"other": "app=cart"}) == Selected(BLUE)
    assert selected({}, {}) == Selected({})


@pytest.mark.parametrize(
    ("text", "pods"),
    [
        ("app=cart", {"app": "cart"}),
        (" app=cart , marker= ", {"app": "cart", "marker": ""}),
        ("app=cart,app=cart", {"app": "cart"}),
    ],
)
def test_an_annotation_names_the_labels_of_all_pods(text: str, pods: dict[str, str]) -> None:
    assert selected(BLUE, {POD_LABELS: text}) == Selected(pods, BLUE)


def test_an_annotation_with_the_whole_selector_makes_no_difference() -> None:
    assert selected(BLUE, {POD_LABELS: "colour=blue,app=cart,marker="}) == Selected(BLUE)


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("", ""),
        ("app", "app"),
        ("app=web", "app=web"),
        ("app=cart,tier=x", "tier=x"),
        ("app=cart,app=web", "app=web"),
        ("app=cart,", ""),
        ("app=cart=x", "app=cart=x"),
        ("app = cart", "app = cart"),
        ("App=cart", "App=cart"),
        ("marker", "marker"),
        ("a\x1b[31m=x", r"a\x1b[31m=x"),
        ("x" * 300, "x" * 100),
    ],
)
def test_nonsense_is_named_and_the_selector_counts(text: str, item: str) -> None:
    its = selected(BLUE, {POD_LABELS: text})
    assert (its.pods, its.receivers, its.unusable) == (BLUE, {}, "")
    assert its.fault == f"`{item}` is not a label of the selector, as in `app=cart`"


def test_an_annotation_has_a_bound() -> None:
    text = ",".join(["app=cart"] * 1_000)
    assert selected(BLUE, {POD_LABELS: text[:MAX_TEXT].rpartition(",")[0]}).pods == {"app": "cart"}
    assert selected(BLUE, {POD_LABELS: text}).fault == "it has 8,999 characters, and admc reads at most 2,000"


def test_of_a_selector_that_is_not_used_no_part_is() -> None:
    many = {f"k{number}": "v" for number in range(17)}
    found = selected(many, {POD_LABELS: "k1=v"})
    assert found == Selected(unusable="it has 17 labels, and admc uses at most 16")
