"""What the YAML decoder of Kubernetes (Go's `sigs.k8s.io/yaml`, strict) makes of a text: built once, and kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.golang import built

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = Path(__file__).with_name("decoder")


def decoded(texts: Sequence[str]) -> list[Any]:
    """What each text says; an error of the decoder fails."""
    decoder = built(SOURCES, "decoder")
    done = subprocess.run([decoder], input=json.dumps(texts).encode(), capture_output=True, timeout=60, check=True)
    answers = json.loads(done.stdout)
    errors = [answer["error"] for answer in answers if "error" in answer]
    assert not errors, errors[:3]
    return [answer.get("json") for answer in answers]
