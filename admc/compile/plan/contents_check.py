"""Checks that the rows of a plan fit together: the names to which its rows refer are in the plan exactly once.

A plan may be edited or hostile. After this check, readers of a plan can look up these names without further checks.
Unchecked are the names in `assumptions`, in the policies and senders of `closed`, and in the ports, destinations and
reasons of `adms`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from admc.compile.plan.model import Plan, PolicyContent
from dsl.documents import DocumentError
from dsl.resolve.match_parser import MatchTextError, parse_match


def check_contents(plan: Plan) -> None:
    """Raise `DocumentError` with the place of the first row that does not fit."""
    _once("policies", (row.name for row in plan.policies))
    _once("adms", (row.service for row in plan.adms))
    _once("decisions", ((row.policy, row.destination) for row in plan.decisions))
    policies = frozenset(row.name for row in plan.policies)
    _known("enforcements", "policy", (row.policy for row in plan.enforcements), policies)
    _known("decisions", "policy", (row.policy for row in plan.decisions), policies)
    for index, adm in enumerate(plan.adms):
        _known(f"adms[{index}].policies", "policy", (row.policy for row in adm.policies), policies)
    _check_program(plan)


def _check_program(plan: Plan) -> None:
    services = frozenset(row.name for row in plan.services)
    parties = services.union(row.name for row in plan.externals)
    _once("services", (row.name for row in plan.services))
    _once("externals", (row.name for row in plan.externals), services)
    _once("calls", ((row.source, row.destination, row.port) for row in plan.calls))
    _check_calls(plan, parties)
    _known("adms", "service", (row.service for row in plan.adms), services)
    _known("enforcements", "service", (row.service for row in plan.enforcements if row.service is not None), services)
    _known("enforcements", "source", (row.source for row in plan.enforcements), parties | {"*"})
    _known("enforcements", "destination", (row.destination for row in plan.enforcements), parties)
    _known("decisions", "destination", (row.destination for row in plan.decisions), parties)
    _known("closed", "destination", (row.destination for row in plan.closed), parties)
    matches: set[str] = set()
    for index, policy in enumerate(plan.policies):
        _check_policy(f"policies[{index}].content", policy.content, parties, matches)


def _check_calls(plan: Plan, parties: Collection[str]) -> None:
    _known("calls", "source", (row.source for row in plan.calls), parties)
    _known("calls", "destination", (row.destination for row in plan.calls), parties)
    ports = {(service.name, port.number) for service in plan.services for port in service.ports}
    ports.update((external.name, port.number) for external in plan.externals for port in external.ports)
    for index, call in enumerate(plan.calls):
        if (call.destination, call.port) not in ports:
            raise DocumentError(f"`calls[{index}].port` is no port of `{_short(call.destination)}`")


def _check_policy(where: str, content: PolicyContent, parties: Collection[str], matches: set[str]) -> None:
    for name in ("sources", "excluded", "destinations"):
        _members(f"{where}.{name}", getattr(content, name), parties)
    _once(f"{where}.arguments", (row.name for row in content.arguments))
    if content.when is not None and content.when not in matches:
        try:
            parse_match(content.when)
        except MatchTextError as error:
            raise DocumentError(f"`{where}.when` is no match: {error}") from error
        matches.add(content.when)


def _once(where: str, names: Iterable[object], others: Collection[object] = ()) -> None:
    seen = set(others)
    for index, name in enumerate(names):
        if name in seen:
            shown = name if isinstance(name, str) else ", ".join(map(str, name)) if isinstance(name, tuple) else name
            raise DocumentError(f"`{where}[{index}]` repeats `{_short(str(shown))}`")
        seen.add(name)


def _known(where: str, field: str, names: Iterable[str], known: Collection[str]) -> None:
    for index, name in enumerate(names):
        if name not in known:
            raise DocumentError(f"`{where}[{index}].{field}` names `{_short(name)}`, which the plan does not have")


def _members(where: str, names: Iterable[str], known: Collection[str]) -> None:
    for index, name in enumerate(names):
        if name not in known:
            raise DocumentError(f"`{where}[{index}]` names `{_short(name)}`, which the plan does not have")


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:37]}..."
