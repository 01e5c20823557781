"""Documents that may be wrong, and why Istio refuses some of them, in words of our own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.istio.objects import Json
from tests.istio.samples import changed, right

CHANGES: Final = 30
"""Changed copies of each sample."""

REASONS: Final[tuple[tuple[str, str], ...]] = ()
"""A part of Istio's message, and what it means."""


class UnknownReasonError(Exception):
    """No entry of `REASONS` fits a message."""


def documents() -> Iterator[Json]:
    """The samples of Istio's kinds, and copies with small changes: those that an API server judges, too."""
    for number, document in enumerate(right()):
        if ".istio.io/" in document["apiVersion"]:
            yield document
            for seed in range(CHANGES):
                yield changed(document, number * 1000 + seed)


def reason(document: Json, message: str) -> str:
    """Why Istio refuses a document; empty if it does not. Raises `UnknownReasonError`."""
    if not message:
        return ""
    for pattern, words in REASONS:
        if re.search(pattern, message):
            return words
    raise UnknownReasonError(f"{document['kind']} {document['spec']}: {message}")
