"""Istio's own cases of right and wrong resources, read from its module: admc takes and refuses the same."""

from __future__ import annotations

from typing import Final

import pytest

from admc.istio.inputs.known_kinds import finding_of_kind
from admc.istio.inputs.reading import problems_of
from admc.istio.schemas.rules import Effort
from admc.istio.schemas.used_fields import kept
from admc.manifests.documents import Document
from admc.manifests.read import documents_of, source_of
from tests.istio import schemas

ISTIO: Final = schemas.Module(
    "istio.io/istio",
    "v0.0.0-20260827124520-eed52ebb66ad",
    "h1:ui9TJjRMAV/hb5ehQaZDq7IUGxuQP6dra9lapT/VjHI=",
)
EXPECTED: Final = "_err"
"""The key under which a case has the error that it gets."""
UNREADABLE: Final = 1
"""One document has an address of IPv6 in brackets without quotes, which the parser here refuses."""


@pytest.mark.long
def test_istio_and_admc_agree_about_its_own_cases() -> None:
    try:
        folder = schemas.download(ISTIO) / "pkg" / "config" / "validation" / "testdata" / "crds"
    except schemas.MissingError as error:
        pytest.skip(str(error))
    right = wrong = unreadable = 0
    differences = []
    for path in sorted(folder.glob("*.yaml")):
        for document in documents_of(source_of(str(path), path.read_bytes())):
            if not isinstance(document, Document):
                unreadable += 1
                continue
            if document.data is None:
                continue
            expected = document.data.pop(EXPECTED, None)
            right, wrong = right + (not expected), wrong + bool(expected)
            of_kind = finding_of_kind(document.data)
            problems = [of_kind] if of_kind is not None else list(problems_of(kept(document.data), Effort()))
            if bool(problems) != bool(expected):
                differences.append((path.name, document.data["metadata"], expected, problems))
    assert differences == []
    assert right > 30
    assert wrong > 70
    assert unreadable == UNREADABLE
