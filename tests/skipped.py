"""What a test run skipped, in one line."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Final

from tests.system import HINT

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

FILE: Final = "ADMC_TESTS_SKIPPED"
"""The environment variable that names a file. Runs add what they skipped to it, and print no line of their own."""

Skipped = tuple[str, str]
"""The reason to skip a test, and its folder."""


def skipped(reports: Iterable[pytest.TestReport]) -> list[Skipped]:
    found = []
    for report in reports:
        reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
        folder = report.nodeid.partition("::")[0].rpartition("/")[0]
        found.append((reason.removeprefix("Skipped: ").removesuffix(f"; {HINT}"), folder))
    return found


def add(path: Path, found: Iterable[Skipped]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in found)


def read(path: Path) -> list[Skipped]:
    """What all runs have added."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [(reason, folder) for reason, folder in map(json.loads, lines)]


def line(found: Iterable[Skipped]) -> str:
    """The line: "skipped 4 tests: 3 no Go (tests/a 2, tests/b 1); 1 no `ip` (tests/a 1); `make system` installs…"."""
    by_reason: dict[str, Counter[str]] = {}
    for reason, folder in found:
        by_reason.setdefault(reason, Counter())[folder] += 1
    if not by_reason:
        return "no test was skipped"
    parts = []
    for reason, folders in sorted(by_reason.items()):
        places = ", ".join(f"{folder} {count}" for folder, count in sorted(folders.items()))
        parts.append(f"{folders.total()}: {reason} ({places})")
    total = sum(folders.total() for folders in by_reason.values())
    tests = "1 test" if total == 1 else f"{total} tests"
    return f"skipped {tests}; {'; '.join(parts)}; {HINT}"
