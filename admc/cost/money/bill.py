"""The money of a month for a plan, for a full mesh and for no mesh: what sidecars use, and what they reserve.

What is used follows the estimate, with its intervals and lower bounds. What is reserved is counted: each replica of a
sidecar reserves the same, whatever it does.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, NamedTuple

from admc.cost.model.overhead import Totals
from admc.cost.money.price_list import PriceList
from admc.cost.profiles.amounts import NANO, ZERO, Whole, added, whole
from admc.cost.profiles.law import Amount
from admc.cost.report import Report

MICRO: Final = 1_000_000
"""Money is in whole millionths of the currency."""
GIB: Final = 2**30


class Money(NamedTuple):
    used: Whole
    reserved: Whole


class Bill(NamedTuple):
    currency: str
    plan: Money
    full_mesh: Money
    everywhere: Money
    none: Money


def bill(report: Report, prices: PriceList) -> Bill:
    return Bill(
        prices.currency,
        _money(report.overhead.totals, prices),
        _money(report.full_mesh.hosting, prices),
        _money(report.full_mesh.everywhere, prices),
        Money(ZERO, ZERO),
    )


def _money(totals: Totals, prices: PriceList) -> Money:
    cores, memory = _priced(totals.cpu, prices.core_month, NANO), _priced(totals.memory, prices.gib_month, GIB)
    of_sidecar = prices.sidecar.cores * prices.core_month + prices.sidecar.gib * prices.gib_month
    reserved = float(of_sidecar * totals.sidecars)
    return Money(added((cores, memory)), whole(Amount(reserved, reserved, reserved), MICRO))


def _priced(amount: Whole, price: Decimal, unit: int) -> Whole:
    """An amount that is given in `1 / unit` of what has the price."""
    return whole(Amount(amount.value, amount.low, amount.high), float(price) * MICRO / unit, at_least=amount.at_least)
