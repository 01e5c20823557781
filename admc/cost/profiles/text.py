"""Writes profiles and their differences for a person at a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from admc.base.columns import table
from admc.base.decimals import significant
from admc.base.terminal import counted, visible
from admc.cost.profiles.diff import Cell, Difference
from admc.cost.profiles.law import Amount, Function, amount, function, total
from admc.cost.profiles.new_profile import NewProfile
from admc.cost.profiles.profile import (
    CPU,
    LATENCY,
    WHOLE,
    ComponentCost,
    Figure,
    HopCost,
    Profile,
    Sizes,
    law,
)
from admc.cost.profiles.source import NamedProfile
from dsl.documents import fields_of

MICRO: Final = 1_000_000
_LEGEND: Final = "`*`: not measured at this rate or size, or none is stated; an interval is shown as `[low, high]`"


def listed(profiles: Sequence[NamedProfile]) -> str:
    rows = [("profile", "proxy", "protocols", "components", "source")]
    for named in profiles:
        profile = named.profile
        protocols = ", ".join(hop.protocol for hop in profile.hops)
        number = str(len(profile.components))
        rows.append((named.named, str(profile.proxy), protocols, number, profile.source))
    return _lines(table(rows, right=(3,)))


def validated(named: NamedProfile) -> str:
    profile = named.profile
    hops, components = counted(len(profile.hops), "protocol"), counted(len(profile.components), "component")
    return f"{visible(named.named)}: no errors ({hops}, {components})\n"


def described(named: NamedProfile) -> str:
    profile = named.profile
    head = [
        ("profile", profile.name),
        ("sha256", named.sha256),
        ("source", profile.source),
        ("machine", profile.platform.machine),
        ("system", profile.platform.system),
        ("proxy", str(profile.proxy)),
        ("latency", profile.method.statistic),
        ("method", profile.method.text),
        ("holds up to", "not stated" if profile.saturation is None else f"{profile.saturation} cores of one sidecar"),
    ]
    lines = table(head)
    for hop in profile.hops:
        lines += ["", f"hop {hop.protocol} ({_sizes(hop.sizes)}{_runs(hop.runs)})", *_hop(hop)]
    if profile.components:
        lines += ["", "components, for each request in the scope of a policy", *_components(profile.components)]
    lines += ["", "sidecar without requests", *_sidecar(profile)]
    lines += ["", "parts", *table(list(profile.parts.items()), indent="  ")]
    return _lines(lines)


def _sizes(sizes: Sizes | None) -> str:
    if sizes is None:
        return "sizes not stated"
    if sizes.low == sizes.high:
        return f"messages of {sizes.low} bytes"
    return f"messages of {sizes.low} to {sizes.high} bytes; figures at {sizes.reference} bytes"


def _runs(runs: int | None) -> str:
    return "" if runs is None else f"; {counted(runs, 'run')}"


_HEAD: Final = ("rate/s", "latency us", "CPU us", "cores")


def _hop(hop: HopCost) -> list[str]:
    whole = hop.whole
    measured = [(part.name, _functions(part, hop.sizes)) for part in hop.parts if part is not whole]
    together = None if whole is None else _functions(whole, hop.sizes)
    rows = [("part", *_HEAD)]
    for rate in _rates([*(functions for _, functions in measured), together or {}]):
        amounts = [_costs(functions, rate) for _, functions in measured]
        for (name, _), (latency, cpu) in zip(measured, amounts, strict=True):
            rows.append((name, *_figures(rate, latency, cpu)))
        sums = [_sum(column) for column in zip(*amounts, strict=True)]
        own = (None, None) if together is None else _costs(together, rate)
        rows.append(("total", *_figures(rate, *(known or added for known, added in zip(own, sums, strict=True)))))
    return [*table(rows, right=(1, 2, 3, 4), indent="  "), *_bytes([*measured, (WHOLE, together or {})])]


def _costs(functions: dict[str, Function], rate: float | None) -> tuple[Amount | None, Amount | None]:
    return _cost(functions.get(LATENCY), rate), _cost(functions.get(CPU), rate)


def _bytes(parts: Sequence[tuple[str, dict[str, Function]]]) -> Iterator[str]:
    for name, functions in parts:
        for quantity, cost_function in functions.items():
            if cost_function.slope is None:
                continue
            for index, rate in enumerate(cost_function.slope.rates or (None,)):
                unit = "us" if quantity == LATENCY else "us of CPU"
                value = cost_function.slope.knots[index].value * (1 if quantity == LATENCY else MICRO)
                at = "" if rate is None else f" at {significant(rate)}/s"
                yield f"  each byte beyond, {name}: {significant(value)} {unit}{at}"


def _components(costs: Sequence[ComponentCost]) -> list[str]:
    rows = [("component", *_HEAD, "memory", "")]
    for cost in costs:
        functions = _functions(cost, cost.sizes)
        for rate in _rates([functions]):
            figures = _figures(rate, *(_cost(functions.get(quantity), rate) for quantity in (LATENCY, CPU)))
            rows.append((cost.title, *figures, _figure(cost.memory), "at least" if cost.floor else ""))
    return table(rows, right=(1, 2, 3, 4, 5), indent="  ")


def _sidecar(profile: Profile) -> list[str]:
    units = {"idle_cpu": "cores"}
    return table(
        [
            (name, f"{_figure(figure)} {units.get(name, 'bytes') if figure else ''}")
            for name, figure in fields_of(profile.sidecar)
        ],
        indent="  ",
    )


def _functions(cost: object, sizes: Sizes | None) -> dict[str, Function]:
    functions = {}
    for quantity in (LATENCY, CPU):
        cost_law = law(cost, quantity)  # type: ignore[arg-type]
        if cost_law is not None:
            functions[quantity] = function(quantity, cost_law, sizes)
    return functions


def _rates(functions: Iterable[dict[str, Function]]) -> list[float | None]:
    stated = sorted(
        {rate for by_quantity in functions for one in by_quantity.values() for rate in one.base.rates or ()}
    )
    return [*stated] or [None]


def _cost(cost_function: Function | None, rate: float | None) -> Amount | None:
    return None if cost_function is None else cost_function.estimate(rate, None).amount


def _sum(amounts: Sequence[Amount | None]) -> Amount | None:
    known = [amount for amount in amounts if amount is not None]
    return total(known) if len(known) == len(amounts) else None


def _figures(rate: float | None, latency: Amount | None, cpu: Amount | None) -> tuple[str, str, str, str]:
    seconds = None if cpu is None else cpu.scaled(MICRO)
    cores = None if cpu is None or rate is None else cpu.scaled(rate)
    return ("?" if rate is None else significant(rate), _known(latency), _known(seconds), _known(cores))


def _known(amount: Amount | None) -> str:
    if amount is None:
        return "-"
    interval = ""
    if amount.low is not None and amount.high is not None:
        interval = f" [{significant(amount.low, 3)}, {significant(amount.high, 3)}]"
    return significant(amount.value) + interval


def _figure(figure: Figure | None) -> str:
    if figure is None:
        return "-"
    return _known(amount(figure))


def notes(new: NewProfile) -> str:
    return _lines(visible(note) for note in new.notes)


def made(new: NewProfile, output: Path) -> str:
    profile = new.profile
    protocols = ", ".join(hop.protocol for hop in profile.hops)
    components = counted(len(profile.components), "component")
    return f"wrote `{visible(str(output))}`: {protocols}; {components}\n" + notes(new)


def compared(difference: Difference) -> str:
    lines = table([("one", difference.one.name), ("other", difference.other.name)])
    lines += [f"caution: {visible(text)}" for text in difference.caution]
    rows = [("figure", "", "rate/s", "size", "one", "other", "other / one")]
    for row in difference.rows:
        unit = {"latency": "latency us", "cpu": "CPU us"}.get(row.quantity, row.quantity)
        rate = "?" if row.rate is None and row.quantity in (LATENCY, CPU) else "" if row.rate is None else str(row.rate)
        ratio = "-" if row.ratio is None else significant(row.ratio, 3)
        size = "" if row.size is None else str(row.size)
        rows.append((row.subject, unit, rate, size, _cell(row.one), _cell(row.other), ratio))
    return _lines([*lines, "", *table(rows, right=(2, 3, 4, 5, 6)), "", _LEGEND.split(";")[0]])


def _cell(cell: Cell | None) -> str:
    return "-" if cell is None else significant(cell.value) + ("*" if cell.extrapolated else " ")


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
