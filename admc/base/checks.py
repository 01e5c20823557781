"""The checks of `admc doctor`, and how they are written."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from admc.base.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class CheckVerdict(StrEnum):
    GOOD = "ok"
    OPTIONAL = "missing"
    """Part of admc works without it; the advice says which part does not."""
    UNKNOWN = "unknown"
    """It cannot be checked; the state says why."""
    BAD = "wrong"


class Check(NamedTuple):
    """What was found about one subject."""

    subject: str
    verdict: CheckVerdict
    state: str
    advice: str = ""


def is_bad(checks: Iterable[Check]) -> bool:
    return any(check.verdict is CheckVerdict.BAD for check in checks)


def text(checks: Sequence[Check]) -> str:
    """Return a line for each check."""
    wide = max((len(check.subject) for check in checks), default=0)
    return "".join(
        f"{check.verdict.value:<8} {check.subject:<{wide}}  {visible(check.state)}"
        f"{f'; {visible(check.advice)}' if check.advice else ''}\n"
        for check in checks
    )


def rows(checks: Iterable[Check]) -> list[dict[str, str]]:
    """Return the checks as JSON has them."""
    return [
        {"subject": check.subject, "verdict": check.verdict, "said": check.state, "advice": check.advice}
        for check in checks
    ]
