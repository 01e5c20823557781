"""Writes a profile as JSON: one text for one profile, with decimals as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Final

from admc.overhead.profiles.profile import (
    SCHEMA_VERSION,
    UNITS,
    ComponentCost,
    Curve,
    Figure,
    HopCost,
    Law,
    Profile,
    Sizes,
)
from dsl.documents import fields_of

_WIDTH: Final = 110
_INDENT: Final = "  "

Document = Mapping[str, object]


def to_json(profile: Profile) -> str:
    return json_text(document(profile))


def json_text(value: object) -> str:
    """Any JSON value, with decimals as they are."""
    return _text(value, 0) + "\n"


def document(profile: Profile) -> Document:
    """The JSON form, with decimals as `Decimal`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "name": profile.name,
        "source": profile.source,
        "platform": dict(fields_of(profile.platform)),
        "proxy": profile.proxy._asdict(),
        "method": profile.method._asdict(),
        "units": UNITS,
        "saturation": profile.saturation,
        "parts": profile.parts,
        "own_components": list(profile.own_components),
        "sidecar": {name: _figure(figure) for name, figure in profile.sidecar._asdict().items()},
        "hops": [_hop(hop) for hop in profile.hops],
        "components": [_component(cost) for cost in profile.components],
    }


def _hop(hop: HopCost) -> Document:
    return {
        "protocol": hop.protocol.value,
        "sizes": _sizes(hop.sizes),
        "runs": hop.runs,
        "parts": [{"name": part.name, "latency": _law(part.latency), "cpu": _law(part.cpu)} for part in hop.parts],
    }


def _component(cost: ComponentCost) -> Document:
    return {
        "component": cost.component,
        "protocol": cost.protocol.value,
        "side": None if cost.side is None else cost.side.value,
        "kind": cost.kind,
        "arguments": dict(cost.arguments),
        "floor": cost.floor,
        "sizes": _sizes(cost.sizes),
        "runs": cost.runs,
        "latency": _law(cost.latency),
        "cpu": _law(cost.cpu),
        "memory": _figure(cost.memory),
    }


def _sizes(sizes: Sizes | None) -> Document | None:
    return None if sizes is None else sizes._asdict()


def _law(law: Law | None) -> Document | None:
    if law is None:
        return None
    return {"base": _curve(law.base), "per_byte": None if law.per_byte is None else _curve(law.per_byte)}


def _curve(curve: Curve) -> list[Document]:
    return [{"rate": knot.rate, **_known(knot.figure)} for knot in curve]


def _figure(figure: Figure | None) -> Document | None:
    return None if figure is None else _known(figure)


def _known(figure: Figure) -> Document:
    interval = None if figure.low is None or figure.high is None else [figure.low, figure.high]
    return {"value": figure.value, "interval": interval}


def _text(value: object, depth: int) -> str:
    """JSON on one line if it is short, otherwise with a line for each entry."""
    line = _line(value)
    if len(line) + depth * len(_INDENT) <= _WIDTH or not isinstance(value, Mapping | list) or not value:
        return line
    inside = _INDENT * (depth + 1)
    if isinstance(value, Mapping):
        entries = [f"{inside}{json.dumps(key)}: {_text(item, depth + 1)}" for key, item in value.items()]
        return "{\n" + ",\n".join(entries) + "\n" + _INDENT * depth + "}"
    return "[\n" + ",\n".join(inside + _text(item, depth + 1) for item in value) + "\n" + _INDENT * depth + "]"


def _line(value: object) -> str:
    if isinstance(value, Decimal):
        return number(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)}: {_line(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(_line(item) for item in value) + "]"
    return json.dumps(value)


def number(value: Decimal) -> str:
    """A decimal without an exponent and without zeros at its end.

    >>> number(Decimal("1.50")), number(Decimal("3E+4")), number(Decimal("-0.0"))
    ('1.5', '30000', '0')
    """
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text in ("-0", "") else text
