"""What breaches a gate: only what the change brings, and nothing that cannot be judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admc.base.exits import CommandError
from admc.cost.rows import AmountRow
from admc.review.diff.gates import check_accepted, judge
from admc.review.diff.model import (
    SCHEMA_VERSION,
    CallName,
    Cost,
    CostLine,
    Counts,
    Diff,
    Finding,
    Gap,
    How,
    Level,
    Restart,
    Rollout,
    Taken,
    Verdict,
    Word,
)
from admc.review.gates.read import gates_beside, load_gates

BREACHED, PASSED, NOT_JUDGED = Verdict.BREACHED, Verdict.PASSED, Verdict.NOT_JUDGED
CORE, MIB = 10**9, 1 << 20


def finding(word: Word, policy: str = "quota") -> Finding:
    return Finding(word, policy, None, (CallName("web", "cart", 80),), "text", None, None, None)


def cost(metric: str, base: int, head: int, *, at_least: bool = False) -> Cost:
    rows = AmountRow(base, None, False), AmountRow(head, None, at_least)
    return Cost(None, None, (CostLine(metric, *rows, head - base),))


def at_least_in_base(base: int, head: int) -> Cost:
    return Cost(None, None, (CostLine("cpu", AmountRow(base, None, True), AmountRow(head, None, False), head - base),))


def taken(how: How = How.COMPILED, why: str | None = None) -> Taken:
    return Taken("main", "shop.adm", None, how, why, 3, None)


SAME = Diff(
    schema_version=SCHEMA_VERSION,
    app="shop",
    base=taken(),
    head=taken(),
    base_counts=Counts(4, 12, 5, 0),
    head_counts=Counts(4, 12, 5, 0),
    weaker=(),
    stricter=(),
    gone=(),
    renames=(),
    adms=(),
    moves=(),
    rollout=Rollout((), (), (), (), None),
    levels=(),
    gap=Gap((), ()),
    cost=Cost("no profile", None, ()),
    program=(),
    gates=(),
    notes=(),
)
LOST = replace(SAME, weaker=(finding(Word.LOST), finding(Word.NARROWED)), stricter=(finding(Word.REFUSED),))
GONE = replace(SAME, gone=(finding(Word.GONE_WITH_ITS_CALL),))


def counted(adms: int, sidecars: int = 12) -> Diff:
    return replace(SAME, head_counts=Counts(adms, sidecars, 5, 0))


def gap(base: tuple[int, int], head: tuple[int, int]) -> Diff:
    return replace(SAME, gap=Gap((Level("adms", *base),), (Level("adms", *head),)))


def verdict(condition: str, diff: Diff, accepted: dict[str, str] | None = None) -> Verdict:
    text = f"gate g = fail when {condition}\n"
    gates = load_gates("shop.gates.adm", {"shop.gates.adm": text.encode()}.__getitem__, "")
    (result,) = judge(gates, diff, accepted or {})
    assert result.condition == condition
    assert result.text
    return result.verdict


@pytest.mark.parametrize(
    ("condition", "diff", "expected"),
    [
        ("weaker", SAME, PASSED),
        ("weaker", LOST, BREACHED),
        ("weaker > 1", LOST, BREACHED),
        ("weaker > 2", LOST, PASSED),
        ("lost", LOST, BREACHED),
        ("loosened", LOST, PASSED),
        ("refused", LOST, BREACHED),
        ("stricter", LOST, BREACHED),
        ("gained", LOST, PASSED),
        ("gone", SAME, PASSED),
        ("gone", LOST, PASSED),
        ("gone", GONE, BREACHED),
        ("gone > 1", GONE, PASSED),
        ("weaker", GONE, PASSED),
        ("stricter", GONE, PASSED),
        # A plain number is of what HEAD has, and only if the change adds to it.
        ("adms > 4", counted(4), PASSED),
        ("adms > 4", counted(5), BREACHED),
        ("adms > 3", counted(4), PASSED),
        ("adms > 3", counted(3), PASSED),
        ("adms > 5", counted(5), PASSED),
        ("adms > +0", counted(5), BREACHED),
        ("adms > +1", counted(5), PASSED),
        ("adms > +25%", counted(5), PASSED),
        ("adms > +24%", counted(5), BREACHED),
        ("adms > +0", counted(3), PASSED),
        ("sidecars > 12", counted(4, 13), BREACHED),
        ("sidecars > +50%", replace(counted(4, 1), base_counts=Counts(0, 0, 0, 0)), BREACHED),
        ("restarts", SAME, PASSED),
        ("restarts > 2", replace(SAME, rollout=Rollout((Restart("web", 3, True),), (), (), (), None)), BREACHED),
        ("restarts > 3", replace(SAME, rollout=Rollout((Restart("web", 3, True),), (), (), (), None)), PASSED),
        ("gap", gap((4, 4), (10, 9)), BREACHED),
        ("gap", gap((10, 9), (10, 9)), PASSED),
        ("gap > 10%", gap((4, 4), (10, 9)), PASSED),
        ("gap > 9%", gap((4, 4), (10, 9)), BREACHED),
        ("gap > +5%", gap((10, 9), (10, 8)), BREACHED),
        ("gap > +10%", gap((10, 9), (10, 8)), PASSED),
        ("cpu > +10%", SAME, NOT_JUDGED),
        ("cpu > +10%", replace(SAME, cost=cost("cpu", 10 * CORE, 11 * CORE)), PASSED),
        ("cpu > +10%", replace(SAME, cost=cost("cpu", 10 * CORE, 11 * CORE + 1)), BREACHED),
        ("cpu > 2.5", replace(SAME, cost=cost("cpu", 2 * CORE, 3 * CORE)), BREACHED),
        ("cpu > 2.5", replace(SAME, cost=cost("cpu", 4 * CORE, 3 * CORE)), PASSED),
        ("cpu > +1", replace(SAME, cost=cost("cpu", 4 * CORE, 5 * CORE, at_least=True)), NOT_JUDGED),
        ("cpu > +1", replace(SAME, cost=cost("cpu", 4 * CORE, 6 * CORE, at_least=True)), BREACHED),
        # What has no figure in BASE and goes would make the change look larger.
        ("cpu > +1", replace(SAME, cost=at_least_in_base(4 * CORE, 6 * CORE)), NOT_JUDGED),
        ("cpu > +1", replace(SAME, cost=at_least_in_base(4 * CORE, 5 * CORE)), PASSED),
        ("memory > +1MiB", replace(SAME, cost=cost("memory", 0, MIB + 1)), BREACHED),
        ("latency > 2ms", replace(SAME, cost=cost("latency_per_second", 0, 2_000_001)), BREACHED),
        ("latency > 2ms", replace(SAME, cost=cost("latency_per_second", 0, 2_000_000)), PASSED),
        ("memory > +1MiB", replace(SAME, cost=cost("cpu", 0, MIB + 1)), NOT_JUDGED),
        *(
            (condition, replace(SAME, base=taken(How.BROKEN, "it has errors")), NOT_JUDGED)
            for condition in ("weaker", "adms > 1", "restarts", "gap", "cpu > +1")
        ),
    ],
)
def test_verdict(condition: str, diff: Diff, expected: Verdict) -> None:
    assert verdict(condition, diff) is expected


def test_an_accepted_breach_is_shown_with_its_reason() -> None:
    gates = load_gates("a.gates.adm", lambda _: b"gate safe = fail when weaker\ngate lose = warn when lost\n", "")
    results = judge(gates, LOST, {"safe": "planned, see the ticket"})
    assert [(each.name, each.verdict, each.reason, each.fails) for each in results] == [
        ("safe", Verdict.ACCEPTED, "planned, see the ticket", True),
        ("lose", Verdict.BREACHED, None, False),
    ]
    (kept, _) = judge(gates, SAME, {"safe": "planned"})
    assert (kept.verdict, kept.reason) == (Verdict.PASSED, None)


@pytest.mark.parametrize(
    ("accepted", "part"),
    [
        ({"saef": "planned"}, "did you mean `safe`?"),
        ({"safe": " "}, "--accept safe=REASON"),
        ({"safe": "x" * 501}, "--accept safe=REASON"),
    ],
)
def test_what_cannot_be_accepted(accepted: dict[str, str], part: str) -> None:
    with pytest.raises(CommandError) as caught:
        check_accepted(accepted, ["safe"])
    (error,) = caught.value.diagnostics
    assert error.code == "ADM875"
    assert part in (error.hint or "")


def test_a_program_without_gates_has_none_and_a_broken_file_is_an_error() -> None:
    def nothing(path: str) -> bytes:
        raise FileNotFoundError(2, "no such file", path)

    assert gates_beside("shop.adm", nothing, "") == ()
    for content in (b"gate safe = stop when weaker\n", b"\xff", b"{}"):
        with pytest.raises(CommandError):
            gates_beside("shop.adm", {"shop.gates.adm": content}.__getitem__, "")
    assert [gate.name for gate in gates_beside("a/shop.adm", lambda _: b"gate safe = fail when weaker\n", "a")] == [
        "safe"
    ]
