"""Counterexamples that were found once, as files in `tests/fidelity/cases`: they run before all others.

A file says why it is kept, and what the compiler has to refuse it with where it is refused. Programs that differ are
printed in this form by `python -m tests.fidelity.long`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

from dsl.program import Protocol, Side
from tests.fidelity.cases import Case, Written
from tests.fidelity.requests import Ask

FOLDER: Final = Path(__file__).with_name("cases")
PLAIN_ASK: Final = asdict(Ask())
PLAIN_POLICY: Final[dict[str, Any]] = Written("", "")._asdict()


class Kept(NamedTuple):
    case: Case
    why: str
    refused: str = ""
    """The code that the compiler refuses the program with; empty where it accepts it."""


def kept() -> list[Kept]:
    """All of them, by name."""
    return [read(path.read_text(), f"k_{path.stem}") for path in sorted(FOLDER.glob("*.json"))]


def read(text: str, name: str) -> Kept:
    content = json.loads(text)
    case = Case(
        name,
        Protocol(content["protocol"]),
        tuple(_policy(each) for each in content["policies"]),
        tuple(_ask(each) for each in content["asks"]),
        tuple((source, destination) for source, destination in content["calls"]),
        content.get("wire", ""),
        content.get("enforced", False),
    )
    return Kept(case, content["why"], content.get("refused", ""))


def written(case: Case, why: str = "say why", refused: str = "") -> str:
    """The file of a case, without default values."""
    content: dict[str, Any] = {"why": why}
    if refused:
        content["refused"] = refused
    content["protocol"] = case.protocol.value
    if case.wire:
        content["wire"] = case.wire
    if case.enforced:
        content["enforced"] = True
    content["calls"] = case.calls
    content["policies"] = [_plainly(policy._asdict(), PLAIN_POLICY) for policy in case.policies]
    content["asks"] = [_plainly(asdict(ask), PLAIN_ASK) for ask in case.asks]
    return f"{json.dumps(content, indent=2)}\n"


def _plainly(content: dict[str, Any], plain: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in content.items() if value != plain[name]}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


def _policy(content: dict[str, Any]) -> Written:
    side = content.get("side")
    return Written(
        content["kind"],
        content.get("arguments", ""),
        content.get("when", PLAIN_POLICY["when"]),
        content.get("scope", PLAIN_POLICY["scope"]),
        Side(side) if side else None,
        tuple(content.get("to", PLAIN_POLICY["to"])),
    )


def _ask(content: dict[str, Any]) -> Ask:
    unknown = content.keys() - {field.name for field in fields(Ask)}
    if unknown:
        raise ValueError(f"a request has no {', '.join(sorted(unknown))}")
    given = {**content}
    if "headers" in given:
        given["headers"] = tuple((name, value) for name, value in given["headers"])
    if "body" in given:
        given["body"] = given["body"].encode()
    return Ask(**given)
