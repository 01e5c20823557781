"""What the examples' READMEs say would happen otherwise does happen."""

from __future__ import annotations

from pathlib import Path

import pytest

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from solver.place import place
from solver.placement import PlacementError, Rule

EXAMPLES = Path(__file__).parents[2] / "examples"


def changed(name: str, before: str, after: str) -> str:
    """An example's text with one change, which has to be one."""
    text = (EXAMPLES / name / "policies.adm").read_text()
    assert text.count(before) == 1
    return text.replace(before, after)


def test_a_limit_on_requests_of_a_database_is_an_error() -> None:
    text = changed("hotel_database_limits", "connection_rate_limit(connections:", "rate_limit(requests:")
    with pytest.raises(ProgramError) as raised:
        dsl.load_text(text)
    assert [finding.code for finding in raised.value.diagnostics] == ["ADM401"]
    assert "`profile -> memcached-profile`, which is `tcp` (and 8 more)" in raised.value.diagnostics[0].message


def test_a_second_sender_of_a_database_is_a_conflict() -> None:
    text = changed("hotel_database_limits", "-> mongodb-user\n", "-> mongodb-user, mongodb-geo\n")
    with pytest.raises(PlacementError) as raised:
        place(dsl.load_text(text))
    assert {reason.rule for reason in raised.value.reasons} >= {Rule.HOST, Rule.STATE}
    lines = {part.span.source.line(part.span.line).split()[0] for part in raised.value.parts}
    assert lines >= {"call", "service"}


@pytest.mark.parametrize("name", ["shadow_v2", "slow_reviews"])
def test_a_split_before_a_mirror_or_a_timeout_is_a_conflict(name: str) -> None:
    lines = (EXAMPLES / "bookinfo" / "policies.adm").read_text().splitlines(keepends=True)
    moved = next(line for line in lines if line.startswith(f"policy {name}"))
    split = next(line for line in lines if line.startswith("policy try_v3"))
    text = changed("bookinfo", moved, "")
    place(dsl.load_text(text))
    with pytest.raises(PlacementError) as raised:
        place(dsl.load_text(text.replace(split, f"{split}{moved}")))
    assert Rule.ORDER in {reason.rule for reason in raised.value.reasons}


def test_the_pin_of_payments_edge_costs_a_sidecar() -> None:
    pinned = place(dsl.load_text((EXAMPLES / "payments_edge" / "policies.adm").read_text()))
    free = place(dsl.load_text(changed("payments_edge", "pin fraud_version at ingress\n", "")))
    assert (len(pinned.adms), len(free.adms)) == (4, 3)


def test_without_networkpolicies_sock_shop_needs_an_adm_at_each_service() -> None:
    without = place(dsl.load_text(changed("sock_shop", "network_policies enforced\n", "")))
    assert len(without.adms) == 8


def test_timeout_and_retry_of_hotel_reservation_are_in_the_order_that_its_readme_explains() -> None:
    names = [p.name for p in dsl.load_text((EXAMPLES / "hotel_reservation" / "policies.adm").read_text()).policies]
    assert names.index("search_budget") < names.index("search_retry")
