"""A change of a large program, as a busy week makes it: policies go, come, are renamed and get other arguments."""

from __future__ import annotations

import random
from typing import Final

CHANGED: Final = 100
"""How many policies change in each of four ways."""
_MARK: Final = "policy "
_ARGUMENTS: Final = (("attempts: 3", "attempts: 2"), ("250ms", "300ms"), ("per: 1s", "per: 2s"))


def changed(text: str, seed: int) -> str:
    """Another program of the same services and calls."""
    lines = text.splitlines()
    policies = [index for index, line in enumerate(lines) if line.startswith(_MARK)]
    random.Random(seed).shuffle(policies)  # noqa: S311
    for at, index in enumerate(policies[: 4 * CHANGED]):
        lines[index] = _WAYS[at // CHANGED](lines[index])
    return "\n".join(lines) + "\n"


def _removed(_line: str) -> str:
    return ""


def _renamed(line: str) -> str:
    name = line.removeprefix(_MARK).partition(" ")[0]
    return line.replace(f"{_MARK}{name} ", f"{_MARK}{name}_again ", 1)


def _other_arguments(line: str) -> str:
    for old, new in _ARGUMENTS:
        line = line.replace(old, new)
    return line


def _twice(line: str) -> str:
    """Two quotas on one call are legal. Of other kinds there may be one, so the policy goes."""
    repeats = any(f"= {kind}(" in line for kind in ("rate_limit", "access_log", "allow"))
    return f"{line}\n{_renamed(line)}" if repeats else ""


_WAYS: Final = (_removed, _renamed, _other_arguments, _twice)
