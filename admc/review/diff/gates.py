"""Judges the gates of BASE by a difference.

    gates, Diff -> GateResult for each gate

A change breaches a gate only by what the change adds: a limit of HEAD's figure is breached only if that figure is also
greater than BASE's. So a gate that BASE already breaches does not fail every later change. A gate that cannot be
judged, for example without a figure of the cost, is neither breached nor passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from admc.base.decimals import fixed
from admc.base.exits import wrong_usage
from admc.compile.plan.model import SourceLine
from admc.review.diff.model import STRICTER, WEAKER, CostLine, Diff, GateResult, How, Level, Verdict, Word
from admc.review.gates.model import COSTS, Gate, Limit, Measure
from dsl.diagnostics.diagnostic import did_you_mean

MAX_REASON: Final = 500
_METRICS: Final = {Measure.CPU: "cpu", Measure.MEMORY: "memory", Measure.LATENCY: "latency_per_second"}
_WORDS: Final[Mapping[str, tuple[Word, ...]]] = {
    "weaker": WEAKER,
    "stricter": STRICTER,
    **{word.replace(" ", "_"): (word,) for word in (*WEAKER, *STRICTER)},
    "gone": (Word.GONE_WITH_ITS_CALL,),
}
"""Measures that count findings -> the words of the findings that they count."""
_NANO: Final = 10**9
_MILLI: Final = 10**6
_MIB: Final = 1 << 20


class _Measurement(NamedTuple):
    """The figures of a measure. `base` is 0 for a measure of the change itself."""

    base: Fraction
    head: Fraction
    text: str
    doubt: str | None = None
    """Why HEAD's figure may be too low. A gate within its limit is then not judged."""
    overstated: str | None = None
    """Why the change may be smaller than the difference of the figures. A breach is then not judged."""


def judge(gates: tuple[Gate, ...], diff: Diff, accepted: Mapping[str, str]) -> tuple[GateResult, ...]:
    """The result of each gate. `accepted`: name of a gate -> the reason for which its breach is accepted."""
    return tuple(_result(gate, diff, accepted.get(gate.name)) for gate in gates)


def check_accepted(accepted: Mapping[str, str], names: list[str]) -> None:
    """Raise `CommandError` for an accepted gate that BASE does not have, and for an empty reason."""
    for name, reason in accepted.items():
        _check_accepted(name, reason, names)


def _check_accepted(name: str, reason: str, names: list[str]) -> None:
    if name not in names:
        raise wrong_usage(
            "ADM875",
            f"`--accept` names the gate `{name[:60]}`, which BASE does not have",
            cause="only a gate of BASE can be breached: those that HEAD adds hold from the merge on",
            hint=did_you_mean(name, names) or "leave `--accept` out",
        )
    if not reason.strip() or len(reason) > MAX_REASON:
        raise wrong_usage(
            "ADM875",
            f"the reason for accepting `{name}` has to have 1 to {MAX_REASON} characters",
            hint=f"write `--accept {name}=REASON`",
        )


def _result(gate: Gate, diff: Diff, reason: str | None) -> GateResult:
    measurement = _measured(gate.measure, diff)
    if isinstance(measurement, str):
        verdict, text = Verdict.NOT_JUDGED, measurement
    elif _breached(measurement, gate.limit) and measurement.overstated is not None:
        verdict, text = Verdict.NOT_JUDGED, f"{measurement.text}; {measurement.overstated}"
    elif _breached(measurement, gate.limit):
        verdict, text = Verdict.BREACHED if reason is None else Verdict.ACCEPTED, measurement.text
    elif measurement.doubt is not None:
        verdict, text = Verdict.NOT_JUDGED, f"{measurement.text}; {measurement.doubt}"
    else:
        verdict, text = Verdict.PASSED, measurement.text
    line = SourceLine(gate.span.source.path, gate.span.line)
    shown = reason if verdict is Verdict.ACCEPTED else None
    return GateResult(gate.name, gate.fails, gate.condition, verdict, text, shown, line)


def _breached(measurement: _Measurement, limit: Limit | None) -> bool:
    change = measurement.head - measurement.base
    if limit is None:
        return change > 0
    if not limit.added:
        return change > 0 and measurement.head > limit.value
    return change > (limit.value * measurement.base if limit.percent else limit.value)


def _measured(measure: str, diff: Diff) -> _Measurement | str:
    """The figures of a measure, or the reason why it cannot be judged."""
    if diff.base.how is How.BROKEN:
        return "BASE cannot be compared: " + (diff.base.why or "it has errors")
    if measure in _WORDS:
        return _findings(measure, diff)
    if measure in COSTS:
        return _cost(Measure(measure), diff)
    if measure == Measure.GAP:
        return _gaps(diff)
    if measure == Measure.RESTARTS:
        pods = sum(restart.pods for restart in diff.rollout.restarts)
        return _Measurement(Fraction(0), Fraction(pods), f"{pods} pods restart")
    base, head = diff.base_counts, diff.head_counts
    before, after = (base.adms, head.adms) if measure == Measure.ADMS else (base.sidecars, head.sidecars)
    return _Measurement(Fraction(before), Fraction(after), f"{measure} {before} -> {after}")


def _findings(measure: str, diff: Diff) -> _Measurement:
    words = _WORDS[measure]
    number = sum(1 for finding in (*diff.weaker, *diff.stricter, *diff.gone) if finding.word in words)
    return _Measurement(Fraction(0), Fraction(number), f"{number} found")


def _cost(measure: Measure, diff: Diff) -> _Measurement | str:
    if diff.cost.reason is not None:
        return f"there is no figure: {diff.cost.reason}"
    line = next((line for line in diff.cost.lines if line.metric == _METRICS[measure]), None)
    if line is None:
        return f"the profile has no figure of `{measure}`"
    before, after = (_amount(measure, amount.value) for amount in (line.base, line.head))
    doubt = "the figure of HEAD is `at least`, since something in it is not known" if line.head.at_least else None
    known = "the figure of BASE alone is `at least`, so the change may be smaller"
    overstated = known if line.base.at_least and not line.head.at_least else None
    base, head = Fraction(line.base.value), Fraction(line.head.value)
    return _Measurement(base, head, f"{measure} {before} -> {after}{_share(line)}", doubt, overstated)


def _share(line: CostLine) -> str:
    base = line.base.value
    if not base:
        return ""
    percent = Fraction(100 * (line.head.value - base), base)
    return f" ({'+' if percent >= 0 else ''}{fixed(percent, 1)}%)"


def _amount(measure: Measure, value: int) -> str:
    if measure is Measure.CPU:
        return f"{fixed(Fraction(value, _NANO), 3)} cores"
    if measure is Measure.MEMORY:
        return f"{fixed(Fraction(value, _MIB), 1)} MiB"
    return f"{fixed(Fraction(value, _MILLI), 3)} ms"


def _gaps(diff: Diff) -> _Measurement:
    base, head = _gap(diff.gap.base), _gap(diff.gap.head)
    return _Measurement(base, head, f"gap {fixed(100 * base, 1)}% -> {fixed(100 * head, 1)}%")


def _gap(levels: tuple[Level, ...]) -> Fraction:
    """How far the first unproven level may be from its optimum, as a share of its value."""
    for level in levels:
        value, bound = level.base, level.head
        if value is not None and bound is not None and value != bound:
            return Fraction(abs(value - bound), max(value, 1))
    return Fraction(0)


def gate_changes(base: tuple[Gate, ...], head: tuple[Gate, ...]) -> tuple[str, ...]:
    """A sentence for each gate that goes, changes or comes, in the order of the names.

    Another spelling of the same limit is no change.
    """
    before, after = ({gate.name: gate for gate in gates} for gates in (base, head))
    sentences = [_sentence(name, before.get(name), after.get(name)) for name in sorted(before.keys() | after.keys())]
    return tuple(sentence for sentence in sentences if sentence is not None)


def _sentence(name: str, old: Gate | None, new: Gate | None) -> str | None:
    if old is None:
        return None if new is None else f"the gate `{name}` holds from the merge on: `{_text(new)}`"
    if new is None:
        return f"the gate `{name}` no longer holds from the merge on, since HEAD lacks it: `{_text(old)}`"
    if _meaning(old) == _meaning(new):
        return None
    return f"the gate `{name}` changes with the merge: `{_text(old)}` -> `{_text(new)}`"


def _text(gate: Gate) -> str:
    return f"{'fail' if gate.fails else 'warn'} when {gate.condition}"


def _meaning(gate: Gate) -> tuple[object, ...]:
    limit = gate.limit
    return gate.fails, gate.measure, None if limit is None else (limit.value, limit.added, limit.percent)
