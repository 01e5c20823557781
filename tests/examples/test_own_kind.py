"""The filters that the example `own_kind` brings along do what it says, in a real Envoy."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from admc.compile.pipeline import compile_program
from admc.testbed.client import Request
from admc.testbed.envoys import envoy_binary
from admc.testbed.loopback import LoopbackLayout
from admc.testbed.testbed import Testbed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dsl.program import Call

pytestmark = [
    pytest.mark.skipif(envoy_binary() is None, reason="there is no Envoy for this platform"),
    pytest.mark.usefixtures("alone"),
]

PROGRAM = Path(__file__).parents[2] / "examples" / "own_kind" / "policies.adm"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Testbed]:
    compiled = compile_program(PROGRAM)
    with Testbed(LoopbackLayout(compiled.program, compiled.placement, tmp_path), envoy_binary()) as running:
        yield running


def call(bed: Testbed, source: str, destination: str) -> Call:
    return next(each for each in bed.program.calls if (each.source, each.destination) == (source, destination))


@pytest.mark.parametrize(
    ("origin", "status"), [("http://shop:8080", 200), ("http://partner.example", 200), ("http://evil.example", 403)]
)
def test_a_write_from_another_site_is_refused(bed: Testbed, origin: str, status: int) -> None:
    request = Request("POST", "/order", (("origin", origin),), b"one book")
    assert bed.send(call(bed, "internet", "shop"), request).status == status


@pytest.mark.long
def test_a_large_body_takes_its_time(bed: Testbed) -> None:
    """256 KiB a second and a bucket of one second: 512 KiB take about one."""
    archive = call(bed, "reports", "archive")
    assert bed.send(archive, Request("POST", "/", (), b"x" * 1000)).seconds < 0.5
    reply = bed.send(archive, Request("POST", "/", (), b"x" * (512 << 10)))
    assert reply.ok
    assert reply.seconds > 0.5
