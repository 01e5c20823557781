"""Policies change sides under traffic beside others: guards, copies, attempts, and names that go to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.transition.marker import MARKER
from admc.transition.steps import steps
from tests.testbed.envoys import envoy_binary
from tests.transition.callers import answered
from tests.transition.move import KEY, SIDES, ends, moved

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(envoy_binary() is None, reason="no Envoy for this platform")

GUARDS = """
policy slow    = timeout(after: 20s) on {shop, till} -> cart:web
policy spoof = deny() on shop -> cart:web when header("x-inner") == "1"
policy inner = set_request_header(name: "x-inner", value: "1") on shop -> cart:web
pin spoof at SIDE
pin inner at SIDE
"""


@SIDES
def test_what_is_harmless_by_itself_is_not_with_another(sides: tuple[str, str], tmp_path: Path) -> None:
    """Met twice, the guard would refuse what the other policy wrote the first time."""
    (passed, refused), _ = moved(ends(GUARDS, sides, tmp_path), tmp_path, {}, {"x-inner": "1"})
    answered([passed], 200)
    answered([refused], 403)


COPIES = """
policy counted = request_count() on shop -> cart:web
policy copies  = mirror(to: spare) on shop -> cart:web
policy seen    = access_log() on shop -> cart:web
pin counted at SIDE
pin seen at ingress
"""


@SIDES
def test_no_copy_and_no_log_has_the_marker(sides: tuple[str, str], tmp_path: Path) -> None:
    both = ends(COPIES, sides, tmp_path)
    (secret,) = steps(*both, KEY)[0].secrets
    # What an application sends under the name may pass where nothing moves, but no ADM's own value ever does.
    upper, title = {MARKER.upper(): secret}, {MARKER.title(): f"{secret},{secret}"}
    callers, seen = moved(both, tmp_path, {}, {MARKER: ""}, upper, title)
    answered(callers, 200)
    assert {each.service for each in seen} == {"cart", "spare"}
    own = set(answered(callers[:2], 200))
    assert not any(any(each.header(MARKER)) for each in seen if own & set(each.header("x-echo-id")))
    logs = [path.read_text(errors="replace") for path in (tmp_path / "logs").rglob("*") if path.is_file()]
    assert logs
    assert not any(secret in log for log in logs)


REPEATED = """
policy again = retry(attempts: 3) on shop -> cart:web
policy once  = add_request_header(name: "x-once", value: "1") on shop -> cart:web
pin once at SIDE
"""


@SIDES
def test_every_attempt_meets_it_once(sides: tuple[str, str], tmp_path: Path) -> None:
    callers, seen = moved(ends(REPEATED, sides, tmp_path), tmp_path, {"x-echo-status": "503,200"})
    assert len(seen) == 2 * len(answered(callers, 200))
    assert {each.header("x-once") for each in seen} == {("1",)}


RENAMED = """
policy slow    = timeout(after: 20s) on {shop, till} -> cart:web
policy moved   = request_count() on shop -> cart:web
policy nameNOW = add_request_header(name: "x-once", value: "1") on shop -> cart:web
policy outNOW  = deny() on shop -> cart:web when header("x-out") == "1"
pin moved at SIDE
pin nameNOW at ingress
pin outNOW at ingress
"""


@SIDES
def test_a_policy_gets_another_name_where_another_moves(sides: tuple[str, str], tmp_path: Path) -> None:
    (passed, refused), seen = moved(ends(RENAMED, sides, tmp_path), tmp_path, {}, {"x-out": "1"})
    answered([passed], 200)
    answered([refused], 403)
    assert {each.header("x-once") for each in seen} == {("1",)}
