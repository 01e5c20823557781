"""The headline of a difference, the reasons why nothing was compared, and the cost in a few words.

If BASE was not judged, no sentence here may claim that nothing gets weaker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from admc.base.terminal import counted, visible
from admc.review.diff.build import NEW, NOT_COMPARED
from admc.review.diff.cost import NO_BASE, TWO_PROFILES
from admc.review.diff.model import AdmChange, Cost, CostLine, Diff, GateResult, How, Verdict, Word
from admc.review.diff.render.words import TEXT, Style, change_text, is_unpriced, listed

_REASONS: Final = {reason: f"cost not compared ({reason})" for reason in (TWO_PROFILES, NO_BASE)}
_ADMS: Final = 6
"""The headline names this many ADMs that come and go, and counts more of them."""


# ---- questions about a difference ----


def has_base(diff: Diff) -> bool:
    """Whether BASE has a plan to compare HEAD with."""
    return diff.base.how not in (How.NOTHING, How.BROKEN)


def is_quiet(diff: Diff) -> bool:
    """Whether neither the placement nor protection is known to change."""
    rollout = diff.rollout
    return has_base(diff) and not any(
        (
            *(diff.weaker, diff.stricter, diff.gone, diff.renames, diff.adms, diff.moves),
            *(rollout.restarts, rollout.redirection, rollout.network_policies, rollout.configuration_only),
            rollout.steps is not None and rollout.steps.refused,
            diff.base_counts != diff.head_counts,
        )
    )


def is_equal(diff: Diff) -> bool:
    """Whether nothing changes at all: neither the program nor a figure, all gates pass, and there are no notes."""
    return (
        is_quiet(diff)
        and not diff.program
        and diff.base.inputs_sha256 == diff.head.inputs_sha256 is not None
        and all(level.base == level.head for level in diff.levels)
        and all(line.base == line.head for line in diff.cost.lines)
        and diff.gap.base == diff.gap.head
        and all(gate.verdict is Verdict.PASSED for gate in diff.gates)
        and not diff.notes
    )


def doubts(diff: Diff, style: Style) -> list[str]:
    """Sentences that say why nothing is compared. They come first, since all other sentences depend on them."""
    sentences = []
    if diff.base.how is How.BROKEN:
        why = f": {style.sentence(diff.base.why)}" if diff.base.why else ""
        sentences.append(f"BASE is broken, so nothing is compared{why}")
    if diff.base.how is How.NOTHING:
        sentences.append("BASE has no such program, so nothing is compared: all is new")
    return sentences


def notes(diff: Diff) -> list[str]:
    """The notes of the difference that `doubts` does not repeat."""
    return [note for note in diff.notes if not note.startswith((NEW, NOT_COMPARED))]


def nothing_found(diff: Diff) -> str:
    """The meaning of an empty list of findings."""
    if diff.base.how is How.BROKEN:
        return "not judged, since BASE is broken"
    if diff.base.how is How.NOTHING:
        return "nothing to compare with"
    return "nothing"


# ---- the first line ----


class Headline(NamedTuple):
    """The first line of a rendering: a verdict, and figures of the placement and of the cost."""

    verdict: str
    figures: tuple[str, ...]


def headline(diff: Diff, style: Style) -> Headline:
    if is_equal(diff):
        return Headline("no difference", ())
    failing = tuple(gate for gate in diff.gates if gate.verdict is Verdict.BREACHED and gate.fails)
    gates = f"; {_failing(failing, style)}" if failing else ""
    if is_quiet(diff):
        costs = (cost_phrase(diff.cost, style),) if any(line.base != line.head for line in diff.cost.lines) else ()
        return Headline(_quiet_verdict(diff) + gates, costs)
    return Headline(_verdict(diff) + gates, (_placement(diff, style), cost_phrase(diff.cost, style)))


def _quiet_verdict(diff: Diff) -> str:
    same_program = diff.base.inputs_sha256 == diff.head.inputs_sha256 is not None and not diff.program
    if same_program:
        return "the program, the placement and protection do not change"
    return "the program changes, the placement and protection do not"


def _verdict(diff: Diff) -> str:
    if diff.base.how is How.BROKEN:
        return "not judged, since BASE is broken"
    if diff.base.how is How.NOTHING:
        return "a new program, with nothing to compare it with"
    number = len(diff.weaker)
    if number:
        verdict = f"{counted(number, 'thing')} {'gets' if number == 1 else 'get'} weaker"
        unclear = sum(finding.word is Word.UNCLEAR for finding in diff.weaker)
        verdict += f" ({unclear} unclear)" if unclear else ""
    else:
        verdict = "nothing gets weaker"
    refused = refused_calls(diff)
    return f"{verdict}; {counted(refused, 'declared call')} will be refused" if refused else verdict


def refused_calls(diff: Diff) -> int:
    """The number of declared calls that a guard newly refuses."""
    return len({call for finding in diff.stricter if finding.word is Word.REFUSED for call in finding.calls})


def _failing(gates: Sequence[GateResult], style: Style) -> str:
    return f"{'gate' if len(gates) == 1 else 'gates'} {listed([gate.name for gate in gates], style)} " + (
        "fails" if len(gates) == 1 else "fail"
    )


def _placement(diff: Diff, style: Style) -> str:
    base, head = diff.base_counts, diff.head_counts
    if not has_base(diff):
        parts = [f"ADMs {head.adms}", f"sidecars {head.sidecars}"]
    else:
        parts = [f"ADMs {base.adms} -> {head.adms}{_adms(diff, style)}", f"sidecars {base.sidecars} -> {head.sidecars}"]
    if diff.base.how is not How.BROKEN:
        parts.append(restart_phrase(diff))
    return ", ".join(parts)


def restart_phrase(diff: Diff) -> str:
    pods = sum(restart.pods for restart in diff.rollout.restarts)
    return f"{counted(pods, 'pod')} {'restarts' if pods == 1 else 'restart'}" if pods else "no pod restarts"


def _adms(diff: Diff, style: Style) -> str:
    came = [adm.service for adm in diff.adms if is_new(adm)]
    went = [adm.service for adm in diff.adms if is_gone(adm)]
    if not came and not went:
        return ""
    if len(came) + len(went) > _ADMS:
        return f" (+{len(came)} -{len(went)})"
    bare = style.name if style is not TEXT else visible
    return (
        " ("
        + " ".join(bare(name) for name in (*(f"+{service}" for service in came), *(f"-{service}" for service in went)))
        + ")"
    )


def is_new(adm: AdmChange) -> bool:
    return not adm.base_replicas and not adm.base_policies


def is_gone(adm: AdmChange) -> bool:
    return not adm.head_replicas and not adm.head_policies


# ---- costs ----


def cost_phrase(cost: Cost, style: Style) -> str:
    """The cost in a few words: the cores if the profile has them, or why there is no figure."""
    if cost.reason is not None:
        return _REASONS.get(cost.reason) or style.sentence(cost.reason)
    for line in cost.lines:
        if line.metric == "cpu":
            return "cores unpriced" if is_unpriced(line) else _cores(line)
    return "no figure of cost"


def _cores(line: CostLine) -> str:
    """The change in cores: `+0.4 cores`, or `+0.4 cores of what is priced` if the sum lacks figures."""
    figure, _, priced = change_text(line).partition(" ")
    return f"{figure} cores{f' {priced}' if priced else ''}"
