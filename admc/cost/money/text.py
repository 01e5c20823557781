"""Writes a bill as text and as JSON."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from admc.base.columns import table
from admc.base.decimals import fixed, significant
from admc.cost.money.bill import MICRO, Bill, Money
from admc.cost.profiles.amounts import Whole


def lines(bill: Bill, width: int | None = None) -> list[str]:
    rows = [(f"{bill.currency} a month", "used", "reserved")]
    for name, money in (
        ("plan", bill.plan),
        ("full mesh, where a sidecar can be", bill.full_mesh),
        ("full mesh, everywhere", bill.everywhere),
        ("no mesh", bill.none),
    ):
        rows.append((name, shown(money.used), shown(money.reserved)))
    return table(rows, right=(1, 2), width=width)


def shown(amount: Whole) -> str:
    """Money with two digits after the point, small sums with more; a lower bound of zero is no figure.

    >>> shown(Whole(12_345_000, None, None)), shown(Whole(4_200, None, None, True)), shown(Whole(0, None, None, True))
    ('12.35', '>= 0.0042', '-')
    """
    if amount.at_least and not amount.value:
        return "-"
    return f"{'>= ' if amount.at_least else ''}{figure(amount.value)}"


def figure(micros: int) -> str:
    """An amount in the currency, of which `micros` are the millionths.

    >>> figure(1_500_000), figure(-1_500_000), figure(0), figure(4_200)
    ('1.50', '-1.50', '0', '0.0042')
    """
    if not micros:
        return "0"
    if abs(micros) < MICRO // 10:
        return significant(micros / MICRO, 2)
    cents = (abs(micros) + MICRO // 200) // (MICRO // 100)
    return f"{'-' if micros < 0 else ''}{cents // 100}.{cents % 100:02d}"


def document(bill: Bill) -> dict[str, object]:
    """The JSON of a bill: amounts in the currency, for a month."""
    return {
        "currency": bill.currency,
        "plan": _money(bill.plan),
        "full_mesh": _money(bill.full_mesh),
        "full_mesh_everywhere": _money(bill.everywhere),
        "none": _money(bill.none),
    }


def _money(money: Money) -> dict[str, object]:
    return {"used": _amount(money.used), "reserved": _amount(money.reserved)}


def _amount(amount: Whole) -> dict[str, object]:
    low, high = amount.low, amount.high
    interval = None if low is None or high is None else [_decimal(low), _decimal(high)]
    return {"value": _decimal(amount.value), "interval": interval, "at_least": amount.at_least}


def _decimal(micros: int) -> Decimal:
    return Decimal(fixed(Fraction(micros, MICRO), 6))
