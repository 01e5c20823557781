"""One program at two times, for tests of the sides of a comparison."""

from __future__ import annotations

import pytest

from admc.base.exits import CommandError
from admc.review.diff.model import Diff
from admc.review.diff.sides.take import Options, sides
from dsl.diagnostics.diagnostic import Diagnostic
from tests.review.diff.harness import said

SHOP = """app shop
service web, cart { http 80 }
call web -> cart
policy quota = rate_limit(requests: 90, per: 1s) on * -> cart
"""
LOOSER = SHOP.replace("90", "900")


def refused(base: str, head: str, *, merge_base: bool = False) -> Diagnostic:
    with pytest.raises(CommandError) as found:
        sides(base, head, Options(), merge_base=merge_base)
    assert found.value.exit_code == 1
    return found.value.diagnostics[0]


def weaker(found: Diff) -> list[str]:
    return said(found.weaker)


LOOSENED = ["loosened quota: * -> cart, web -> cart"]
