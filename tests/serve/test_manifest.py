"""`state.json` of the first release may be damaged: each reference to an object has to be a digest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from admc.serve.storage.manifest import ManifestError, from_json

DIGEST = "a" * 64


def manifest(**state: Any) -> bytes:
    row = {"main": "p.adm", "mode": "redirect", "inputs": {"p.adm": DIGEST}, "plan": DIGEST, "endpoints": None}
    return json.dumps({"schema_version": 1, "state": row | state, "groups": {}}).encode()


def test_a_whole_manifest_is_read() -> None:
    found = from_json(manifest(endpoints=DIGEST))
    assert found.objects == {DIGEST}


@pytest.mark.parametrize("text", ["", "../lock", "A" * 64, "a" * 63])
@pytest.mark.parametrize("field", ["plan", "endpoints", "inputs"])
def test_a_reference_that_is_not_a_digest_is_rejected(field: str, text: str) -> None:
    value = {"p.adm": text} if field == "inputs" else text
    with pytest.raises(ManifestError, match="digest"):
        from_json(manifest(**{field: value}))
