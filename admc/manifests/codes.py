"""Codes about manifests of Kubernetes: title, explanation, examples. This module holds data only."""

from __future__ import annotations

from collections.abc import Mapping

CODES: Mapping[str, tuple[str, ...]] = {
    "ADM927": (
        "manifests that cannot be read",
        "Manifests are YAML or JSON with at most 100,000 documents in a file, 60 levels, 2,000,000 keys and values and "
        "64,000,000 characters, with aliases written out: `admc inject` counts those of a file, which has at most "
        "32 MB, and `admc advise` those of an object. A key that is there twice is an error: readers differ in which "
        "of the two values they take, so what is checked could differ from what is applied. No line of a document "
        "with a Secret is shown.",
    ),
}
