"""The protocol, corner by corner, as conversations: see `transcripts/` and `transcript.py` for how to read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.xds_server.transcript import played, sections

FOLDER = Path(__file__).with_name("transcripts")
CASES = [
    pytest.param(path.stem.partition("_")[0], body, title, id=f"{path.stem}: {title}")
    for path in sorted(FOLDER.glob("*.txt"))
    for title, body in sections("\n" + path.read_text())
]


@pytest.mark.parametrize(("variant", "body", "title"), CASES)
def test_transcript(variant: str, body: str, title: str) -> None:
    assert played(body, variant, grpc="gRPC" in title) == body


def test_both_variants_have_transcripts() -> None:
    assert {case.values[0] for case in CASES} == {"sotw", "delta"}
    assert len(CASES) > 40
