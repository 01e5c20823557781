"""admc and `istioctl validate` agree on what is invalid, or the difference is explained."""

from __future__ import annotations

from collections import Counter

import pytest

from admc.istio.inputs.reading import problems_of
from admc.istio.schemas.rules import Effort
from admc.istio.schemas.used_fields import kept
from tests.istio.objects import Json
from tests.istio.oracle import recording
from tests.istio.oracle.verdicts import FORM, MEANINGS, OTHER, documents, reason

NUMBER_OF_A_NAME = "must be a text"
"""Protobuf's JSON takes the number of a named value, such as `action: 0`. An API server refuses it, and so does admc
(`tests/istio/test_api_server.py` compares the same documents)."""


@pytest.fixture(scope="module")
def verdicts() -> list[tuple[Json, list[str], str]]:
    """Each document, what admc says against it, and why Istio refuses it."""
    recorded = recording.read()
    return [
        (document, [it.message for it in problems_of(kept(document), Effort())], recorded.refusal(document))
        for document in documents()
    ]


def test_what_istio_cannot_read_admc_refuses(verdicts: list[tuple[Json, list[str], str]]) -> None:
    read = [document["spec"] for document, ours, theirs in verdicts if theirs == FORM and not ours]
    assert read == []
    assert sum(theirs == FORM for _, _, theirs in verdicts) > 150


def test_what_admc_refuses_istio_refuses(verdicts: list[tuple[Json, list[str], str]]) -> None:
    alone = [ours for _, ours, theirs in verdicts if ours and not theirs]
    assert all(len(ours) == 1 and NUMBER_OF_A_NAME in ours[0] for ours in alone)
    assert 0 < len(alone) < 5


def test_each_refusal_of_istio_alone_is_explained(verdicts: list[tuple[Json, list[str], str]]) -> None:
    alone = Counter(theirs for _, ours, theirs in verdicts if theirs and not ours)
    assert OTHER not in alone
    assert alone.keys() <= {meaning.words for meaning in MEANINGS}
    assert len(alone) > 10


def test_both_take_documents_and_both_refuse_some(verdicts: list[tuple[Json, list[str], str]]) -> None:
    both = Counter((bool(ours), bool(theirs)) for _, ours, theirs in verdicts)
    assert both[False, False] > 50
    assert both[True, True] > 150


def test_a_reason_is_named_in_our_words() -> None:
    assert reason({"known": True}) == ""
    assert reason({"form": "unknown field x"}) == FORM
    assert reason({"meaning": "duplicate subset names: v1"}) == "two subsets of one name"
    assert reason({"meaning": "something new"}) == OTHER
