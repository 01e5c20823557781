"""Figures and ports of a plan as they could stand in a program: `0.5`, `20/s`, `4KB`, `http admin 9000 -> 9001`."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from dsl.units import written

if TYPE_CHECKING:
    from admc.plan.model import PortRow


def number_text(value: float) -> str:
    """Without an exponent, and without a fraction where there is none."""
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def rate_text(value: float | None) -> str | None:
    return None if value is None else f"{number_text(value)}/s"


def size_text(value: int | None) -> str | None:
    return None if value is None else written("size", value)


def port_text(port: PortRow) -> str:
    name = "" if port.name is None else f" {port.name}"
    target = "" if port.target == port.number else f" -> {port.target}"
    return f"{port.protocol.value}{name} {port.number}{target}"
