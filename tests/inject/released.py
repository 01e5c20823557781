"""The containers and volumes of each form, in a file that is written once: pods in clusters have them.

    python -m tests.inject.released     writes the file of each form that has none

A form whose release is not out yet may get another file: remove its file first. All others stay as they are.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from admc.kubernetes.inject.containers import Form, containers, volumes
from admc.kubernetes.inject.model import Installation, PodNeeds
from emitters.interception.pod import PodCaptures

FOLDER = Path(__file__).parent / "forms"
HERE = Installation("shop", "admc-shop.default.svc:18000", "registry:5000/admc:1", "envoyproxy/envoy:v1.40-latest")
NEEDS = {
    "an ADM and the wait": PodNeeds("shop/rate", PodCaptures(frozenset({9000}), frozenset({27017, 8082})), waits=True),
    "an ADM": PodNeeds("shop/rate", PodCaptures(frozenset({9000})), waits=False),
    "the wait": PodNeeds("", None, waits=True),
}


def file_of(form: Form) -> Path:
    return FOLDER / f"{form.name.lower()}.json"


def written(form: Form) -> dict[str, Any]:
    """The parts of pods, by what the pods need."""
    return {
        name: {"initContainers": containers(needs, HERE, form), "volumes": volumes(needs, HERE)}
        for name, needs in NEEDS.items()
    }


if __name__ == "__main__":
    for form in Form:
        if not file_of(form).exists():
            file_of(form).write_text(json.dumps(written(form), indent=1) + "\n")
