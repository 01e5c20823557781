"""Computes the monthly price of a plan, of a full mesh and of no mesh.

    Report, PriceList -> [Bill]

Each price has two sums:

    used        the estimated cores and memory of all sidecars, with the intervals and lower bounds of the estimate
    reserved    the cores and memory that all sidecars reserve: every replica reserves the same, whatever its load
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
    """The price of an amount, where `price` is that of `unit` nano-cores or bytes."""
    return whole(Amount(amount.value, amount.low, amount.high), float(price) * MICRO / unit, at_least=amount.at_least)
