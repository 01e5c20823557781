"""The text of gates: its layout, what it resolves to, and the errors of a file of gates."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dsl
from admc.review.diff.model import Word
from admc.review.gates.model import FINDINGS, MEASURES, Limit
from admc.review.gates.read import resolve_gates
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, ProgramError
from dsl.syntax.parser import parse
from dsl.text import SourceText
from tests.properties import examples


def resolved(text: str) -> tuple[tuple[tuple[str, bool, str, Limit | None], ...], tuple[Diagnostic, ...]]:
    diagnostics = Diagnostics()
    gates = resolve_gates(parse(SourceText("shop.gates.adm", text), diagnostics), diagnostics)
    return tuple((gate.name, gate.fails, gate.measure, gate.limit) for gate in gates), tuple(diagnostics.items)


def test_every_form() -> None:
    text = """// what a change may bring
gate safe = fail when weaker
gate moved = warn when rests_on_more > 2
gate cores = warn when cpu > +10%
gate more = warn when cpu > +0.5
gate most = fail when cpu > 2.5
gate memory = fail when memory > +1GiB
gate slow = warn when latency > 40ms
gate few = fail when adms > 12
gate none = fail when sidecars > +0
gate proven = warn when gap
gate near = warn when gap > 5%
gate calm = warn when restarts > 3
"""
    found, errors = resolved(text)
    assert errors == ()
    assert {name: (fails, measure, limit) for name, fails, measure, limit in found} == {
        "safe": (True, "weaker", None),
        "moved": (False, "rests_on_more", Limit(Fraction(2), False, False, "2")),
        "cores": (False, "cpu", Limit(Fraction(1, 10), True, True, "+10%")),
        "more": (False, "cpu", Limit(Fraction(5 * 10**8), True, False, "+0.5")),
        "most": (True, "cpu", Limit(Fraction(25 * 10**8), False, False, "2.5")),
        "memory": (True, "memory", Limit(Fraction(2**30), True, False, "+1GiB")),
        "slow": (False, "latency", Limit(Fraction(40 * 10**6), False, False, "40ms")),
        "few": (True, "adms", Limit(Fraction(12), False, False, "12")),
        "none": (True, "sidecars", Limit(Fraction(0), True, False, "+0")),
        "proven": (False, "gap", None),
        "near": (False, "gap", Limit(Fraction(1, 20), False, False, "5%")),
        "calm": (False, "restarts", Limit(Fraction(3), False, False, "3")),
    }


def test_each_word_can_be_counted() -> None:
    words = {word.replace(" ", "_") for word in Word if word is not Word.GONE_WITH_ITS_CALL}
    assert set(FINDINGS) == words | {"weaker", "stricter", "gone"}
    text = "".join(f"gate g{at} = warn when {measure}\n" for at, measure in enumerate(FINDINGS))
    found, errors = resolved(text)
    assert errors == ()
    assert [measure for _, _, measure, _ in found] == list(FINDINGS)


@pytest.mark.parametrize(
    ("text", "code", "at", "part"),
    [
        ("gate a = fail when weeker", "ADM873", "weeker", "did you mean `weaker`?"),
        ("gate a = fail when adms", "ADM874", "adms", "write `adms > 12`"),
        ("gate a = fail when cpu", "ADM874", "cpu", "+0"),
        ("gate a = fail when weaker > +1", "ADM874", "1", "write `weaker > 1`"),
        ("gate a = fail when restarts > +10%", "ADM874", "10%", "write `restarts > 10%`"),
        ("gate a = fail when adms > 10%", "ADM874", "10%", "write `adms > +10%`"),
        ("gate a = fail when weaker > 10%", "ADM874", "10%", "write"),
        ("gate a = fail when gap > 5", "ADM874", "5", "write `gap > 5%`"),
        ("gate a = fail when adms > 1.5", "ADM201", "1.5", "no fraction"),
        ("gate a = fail when memory > 5", "ADM202", "5", ""),
        ("gate a = fail when memory > +5s", "ADM202", "5s", ""),
        ("gate a = fail when latency > 5MB", "ADM202", "5MB", ""),
        ("gate a = fail when cpu > 5MB", "ADM202", "5MB", ""),
        ("gate a = stop when weaker", "ADM001", "stop", ""),
        ("gate a = fail if weaker", "ADM001", "if", ""),
        ("gate a = fail when weaker >= 3", "ADM001", ">=", ""),
        ("gat a = fail when weaker", "ADM008", "gat", "did you mean `gate`?"),
        ("service web { http 80 }", "ADM848", "service web { http 80 }", "move it to `shop.adm`"),
        ("test a = adms <= 4", "ADM848", "test a = adms <= 4", ""),
        ("gate a = fail when weaker\ngate a = warn when lost", "ADM105", "a", "rename one of them"),
    ],
)
def test_an_error_has_a_code_and_a_place(text: str, code: str, at: str, part: str) -> None:
    _, errors = resolved(text + "\n")
    (error,) = errors
    assert (error.code, None if error.span is None else error.span.text) == (code, at)
    assert part in (error.hint or "")


def test_too_many_gates() -> None:
    _, errors = resolved("".join(f"gate g{at} = fail when weaker\n" for at in range(1002)))
    assert [error.code for error in errors] == ["ADM849"]


def test_a_program_has_no_gates() -> None:
    text = "app shop\nservice web { http 80 }\ngate safe = fail when weaker\n"
    with pytest.raises(ProgramError) as caught:
        dsl.load_text(text)
    (error,) = caught.value.diagnostics
    assert error.code == "ADM131"
    assert error.hint is not None
    assert "gates.adm" in error.hint


@pytest.mark.parametrize("line", ["service gate { http 80 }", "service gate, web { http 80 }"])
def test_a_service_may_be_named_gate(line: str) -> None:
    program = dsl.load_text(f"app shop\n{line}\n")
    assert "gate" in program.services


def test_the_formatter_aligns_gates() -> None:
    from dsl.syntax.format import format_text

    text = "gate   safe=fail when weaker\n// cores\ngate cores = warn when cpu>+ 10%\ngate few=fail when adms>12 // x\n"
    wanted = (
        "gate safe = fail when weaker\n"
        "// cores\n"
        "gate cores = warn when cpu > +10%\n"
        "gate few   = fail when adms > 12  // x\n"
    )
    assert format_text(text) == wanted
    assert format_text(wanted) == wanted


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("fail", "warn")),
            st.sampled_from([*MEASURES, "x", "when"]),
            st.sampled_from(("", " > 5", " > +5", " > +5%", " > 5%", ">5MB", " > 5ms", " >", " > +", " + 5")),
        ),
        max_size=5,
    )
)
@examples(200)
def test_any_gate_resolves_or_has_an_error(lines: list[tuple[str, str, str]]) -> None:
    text = "".join(f"gate g{at} = {action} when {rest[0]}{rest[1]}\n" for at, (action, *rest) in enumerate(lines))
    found, errors = resolved(text)
    assert len(found) + len(errors) == len(lines)
