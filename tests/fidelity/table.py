"""`python -m tests.fidelity.table > docs/fidelity.md`: kind x side x protocol, from a real run."""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from dsl.program import Protocol, Side
from tests.emitters.envoy.support import ENVOY
from tests.fidelity.cases import load, text
from tests.fidelity.known_differences import reason
from tests.fidelity.runs import How, Result, What
from tests.fidelity.singles import singles
from tests.fidelity.store import EVERY, groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEAD = """\
# Fidelity: on both sides a policy has the same results for clients

This page shows the results of samples that real Envoys ran. In the [first table](#kind-side-protocol), `equal (2)`
stands for two samples with the predicted results; [differences](#what-differs) are at the end.

A separate program, the *judge*, predicts the results; it knows nothing of sides. It reads each program as layers
(policies in declared order around a call), is written from [the kinds](kinds.md), [the rules](rules.md) and
[the language](language.md), and shares no code with the compiler. Real Envoys run each program without a mesh, in a
full mesh and compiled, and answers at the clients and requests at the servers (status, headers, body, time, attempts,
copies) are compared with the prediction. `python -m tests.fidelity.table > docs/fidelity.md` made this page; do not
edit it.

## Kind, side, protocol
| cell | meaning |
|---|---|
| `equal (n)` | n samples, each as predicted, in the full mesh as well |
| `refused` | the compiler refuses it with this code; at the senders, for example, a quota of several callers |
| `not applicable` | the kind does not support the protocol |
"""


TOTALS = """
## How many
`run` says how the application ran: `none` is without a mesh, `full` in a full mesh, `compiled` with the ADMs of the
compiled placement. `no textbook placement` counts the cases that the sides of the textbook cannot enforce.
"""


FOOT = f"""
Pairs that do not commute are tried in both orders, on the sides of the
[textbook placement](glossary.md#the-placement) and on the sides that the compiler chooses. A case can also fix the side
of each policy. For each pair of fixed sides, one case in {EVERY} is tried here, and `make fuzz` tries all. The compiler
refuses a pair whose sides would reverse the order. Hypothesis draws random programs of several shapes: chains, fans,
diamonds. A case that differed once is kept in `tests/fidelity/cases` and runs first.

Nothing enforces NetworkPolicies on loopback, where all of this runs. The random programs say `network_policies
enforced`, and a guard that is left to a NetworkPolicy has only callers that it admits: what shows is that the other
policies are as predicted around it. Callers that it drops are [tried in namespaces](testbed.md#what-is-judged-in-it).

`make mutants` shows that this comparison notices mistakes in the emitted configuration."""

SPOKEN = {Protocol.HTTP.value: "http/1.1", "h2c": "http/2", Protocol.GRPC.value: "grpc", Protocol.TCP.value: "tcp"}
"""The clients' protocols, as the table names them."""


POLICIES = (
    ("k", "counterexamples that were kept"),
    ("s", "one"),
    ("q", "two, in declared order"),
    ("f", "a retry or an ejection, and a service that fails without an answer"),
    ("w", "two to five, at random"),
)
"""Cases by the first letter of their names."""


def cell(results: Iterable[Result]) -> str:
    """The results of all samples of one kind on one side in one protocol."""
    found = list(results)
    if not found:
        return "not applicable"
    counts = Counter(each.what for each in found)
    parts = []
    if counts[What.EQUAL]:
        parts.append(f"equal ({counts[What.EQUAL]})")
    if counts[What.DIFFERENT]:
        parts.append(f"**different ({len({each.case for each in found if each.what == What.DIFFERENT})})**")
    codes = sorted({each.detail for each in found if each.what == What.REFUSED})
    if codes:
        parts.append(f"refused: {'; '.join(codes)}")
    return ", ".join(parts)


def kinds_table(results: Sequence[Result]) -> list[str]:
    """One line a kind."""
    cases = {case.name: case for case in singles()}
    kinds = load(text([])).kinds
    heads = [f"{spoken} {side}" for spoken in SPOKEN.values() for side in Side]
    lines = [f"| kind | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for kind in kinds:
        cells = []
        for head in heads:
            title, side = head.rsplit(maxsplit=1)
            own = [
                each
                for each in results
                if (each.how == How.COMPILED or each.what == What.DIFFERENT)
                and each.case in cases
                and (policy := cases[each.case].policies[0]).kind == kind
                and (policy.side, SPOKEN[cases[each.case].spoken]) == (side, title)
            ]
            cells.append(cell(own))
        title = f"`{kind}`" if kinds[kind].prelude else "a kind of the program's own, with a template"
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return lines


def totals_table(results: Sequence[Result]) -> list[str]:
    """How many cases ran in which way, with which results."""
    counts = Counter(
        (each.case[0], each.how, each.what)
        for each in results
        if each.what != What.REFUSED or each.how == How.COMPILED  # by the compiler, which stands behind no other way
    )
    lines = ["| policies | run | equal | different | refused | no textbook placement |", "|---|---|---|---|---|---|"]
    for first, title in POLICIES:
        lines += [
            f"| {title} | {how} | {' | '.join(str(counts[first, how, what]) for what in What)} |"
            for how in How
            if any((first, how, what) in counts for what in What)
        ]
    return lines


def main() -> None:
    if ENVOY is None:
        sys.exit("there is no Envoy for this platform, so there is nothing to compare with")
    results: list[Result] = []
    different: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for group in groups():
            found = group.results(Path(folder))
            results += found.values()
            keys = {case.name: case.key for case in group.cases}
            for each in found.values():
                if each.what == What.EQUAL and reason(keys[each.case], each.how):
                    sys.stderr.write(
                        f"`{each.label}` ({each.how}) is equal: remove its line in `known_differences.py`\n"
                    )
                if each.what == What.DIFFERENT:
                    why = reason(keys[each.case], each.how) or f"**not known before**: {each.detail.splitlines()[0]}"
                    different.append(f"- `{each.label}` ({each.how}): {why}.")
            sys.stderr.write(f"{group.name}: {len(found)} results\n")
    print(HEAD)
    print("\n".join(kinds_table(results)))
    print(TOTALS)
    print("\n".join(totals_table(results)))
    print(FOOT)
    print("\n## What differs\n")
    print("\n".join(sorted(set(different))) or "Nothing.")


if __name__ == "__main__":
    main()
