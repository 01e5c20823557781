"""The page about places has the figures of this version, and they are those that the issue of the place is about."""

from __future__ import annotations

import pytest

from tests.bench import hops


@pytest.fixture(scope="module")
def found() -> list[hops.Row]:
    return hops.rows()


def test_the_page_has_these_figures(found: list[hops.Row]) -> None:
    lines = hops.PAGE.read_text(encoding="utf-8").splitlines()
    assert lines[-len(found) - 2 :] == hops.table(found), "write it anew with `python -m tests.bench.hops`"


def test_the_network_needs_no_more_adms(found: list[hops.Row]) -> None:
    for one in found:
        assert one.network is None or one.network.adms <= one.two.adms <= one.full.adms


def test_allow_lists_need_no_adm_in_the_network(found: list[hops.Row]) -> None:
    lists = [one for one in found if one.program.endswith(": allow-lists")]
    assert len(lists) == len(hops.GRAPHS)
    assert all(one.network is not None and one.network[::2] == (0, 0) for one in lists)


def test_a_shop_with_stores_without_adms_needs_few(found: list[hops.Row]) -> None:
    """Each store admits its declared callers, and hosts no ADM."""
    (shop,) = (one for one in found if one.program == "sock_shop")
    assert shop.network is not None
    assert shop.network.adms <= 6 < shop.two.adms
