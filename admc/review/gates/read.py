"""Reads the gates of a program from `shop.gates.adm` beside `shop.adm`, and checks measures and units of limits."""

from __future__ import annotations

from fractions import Fraction
from pathlib import PurePosixPath
from typing import Final

from admc.base.exits import CommandError, Exit
from admc.review.gates.model import MEASURES, OF_THE_CHANGE, Gate, Limit, Measure
from dsl import units
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.files.folders import Read
from dsl.files.reading import Reader
from dsl.graph.bodies import report
from dsl.resolve.beside import Form, statements
from dsl.resolve.resolver import in_order
from dsl.syntax import tree
from dsl.syntax.parser import parse
from dsl.syntax.tokens import GATE, GATE_ENDING

_ENDING: Final = ".adm"


def gates_name(program: str) -> str:
    """The name of a program's file of gates: `shop.gates.adm` for `shop.adm`."""
    return PurePosixPath(program).name.removesuffix(_ENDING) + GATE_ENDING


def load_gates(name: str, read: Read, folder: str) -> tuple[Gate, ...]:
    """The gates in the file `name` of the folder that `read` reads. Messages show `folder`.

    Raises `CommandError` (exit 1) with all findings.
    """
    diagnostics = Diagnostics()
    source = Reader(read, diagnostics, folder).text(name, None)
    gates = () if source is None else resolve_gates(parse(source, diagnostics), diagnostics)
    if diagnostics.has_errors:
        raise CommandError(Exit.INPUT, in_order(diagnostics), folder)
    return gates


def gates_beside(program: str, read: Read, folder: str) -> tuple[Gate, ...]:
    """The gates of a program; none if no file of gates stands beside it. Raises as `load_gates` does."""
    name = gates_name(program)
    try:
        read(name)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError):
        pass  # `load_gates` reports it
    return load_gates(name, read, folder)


_FORM: Final = Form(GATE, 1000, misplaced="ADM848", too_many="ADM849")
_NANO: Final = 10**9
_MICRO: Final = 1000
_HUNDRED: Final = 100


def resolve_gates(module: tree.Module, diagnostics: Diagnostics) -> tuple[Gate, ...]:
    """All gates without an error, in the order of the file."""
    gates = (_gate(statement, diagnostics) for statement in statements(module, tree.Gate, _FORM, diagnostics))
    return tuple(gate for gate in gates if gate is not None)


def _gate(given: tree.Gate, diagnostics: Diagnostics) -> Gate | None:
    measure = given.measure.text
    if measure not in MEASURES:
        diagnostics.error(
            "ADM873",
            f"there is no measure named `{measure}`",
            given.measure.span,
            cause="a gate measures one of " + ", ".join(f"`{name}`" for name in MEASURES),
            hint=diagnostics.did_you_mean(measure, MEASURES),
        )
        return None
    limit = None
    if given.limit is not None:
        limit = _limit(measure, given, given.limit, diagnostics)
        if limit is None:
            return None
    elif measure not in OF_THE_CHANGE and measure != Measure.GAP:
        hint = f"write `{measure} > 12`, or `{measure} > +0` for any that the change adds"
        message = f"`{measure}` needs a limit"
        cause = "without a number, a gate is breached by any at all"
        diagnostics.error("ADM874", message, given.measure.span, cause=cause, hint=hint)
        return None
    return Gate(given.name.text, given.fails, measure, limit, given.name.span)


def _limit(measure: str, given: tree.Gate, number: tree.Number, diagnostics: Diagnostics) -> Limit | None:
    sign = "+" if given.added else ""
    percent = number.text.endswith("%") and measure != Measure.GAP
    if given.added and measure in OF_THE_CHANGE:
        message = f"`{measure}` counts what the change brings, so `+` adds nothing"
        diagnostics.error("ADM874", message, number.span, hint=f"write `{measure} > {number.text}`")
        return None
    if number.text.endswith("%"):
        if not given.added and measure != Measure.GAP:
            hint = f"write `{measure} > +{number.text}` to limit what the change adds"
            message = "a percentage is of what BASE has"
            diagnostics.error("ADM874", message, number.span, hint=hint)
            return None
        value = units.decimal(number.text[:-1], 0, what="a percentage")
        unit: Fraction = Fraction(1, _HUNDRED)
    elif measure == Measure.GAP:
        message = "the limit of `gap` is a percentage"
        diagnostics.error("ADM874", message, number.span, hint=f"write `gap > {units.without_unit(number.text)}%`")
        return None
    else:
        value, unit = _amount(measure, number.text)
    if isinstance(value, units.BadNumber):
        report(value, number.span, diagnostics)
        return None
    return Limit(Fraction(str(value)) * unit, given.added, percent, sign + number.text)


def _amount(measure: str, text: str) -> tuple[float | units.BadNumber, Fraction]:
    """The number of a limit, and the factor that turns it into the unit of the measure."""
    if measure == Measure.CPU:
        return units.decimal(text, 0, what="a number of cores"), Fraction(_NANO)
    if measure == Measure.MEMORY:
        return units.size(text), Fraction(1)
    if measure == Measure.LATENCY:
        return (0, Fraction(1)) if text == "0" else (units.duration(text), Fraction(_MICRO))
    return units.integer(text, 0, what=f"a number of {measure}"), Fraction(1)
