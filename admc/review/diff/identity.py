"""Pairs each policy of BASE with its partner in HEAD, so that a rename is no change.

    plan, plan -> renames; name in BASE -> name in HEAD

The partner has the same name. A policy whose name is gone was renamed if exactly one new policy of HEAD does the same
to the same requests. Lines, paths and digests of a program play no part. Calls are equal if source, destination and
port are equal; decisions, if policy and destination are equal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

from admc.compile.plan.model import Plan, PolicyContent, PolicyRow
from admc.review.diff.model import Rename
from admc.review.diff.parties import in_names_of


def renames(base: Plan, head: Plan) -> tuple[Rename, ...]:
    """The renamed policies, by their names in BASE: each of them has exactly one equal among HEAD's new policies."""
    base = in_names_of(base, head)
    old = {row.name for row in base.policies}
    new = {row.name for row in head.policies}
    before = _by_meaning(base, (row for row in base.policies if row.name not in new))
    after = _by_meaning(head, (row for row in head.policies if row.name not in old))
    pairs = (
        Rename(names[0], after[meaning][0])
        for meaning, names in before.items()
        if len(names) == 1 and len(after.get(meaning, ())) == 1
    )
    return tuple(sorted(pairs))


def partners(base: Plan, head: Plan, renamed: Iterable[Rename]) -> Mapping[str, str]:
    """Name in BASE -> name in HEAD, for each policy that both plans have."""
    new = {row.name for row in head.policies}
    same = {row.name: row.name for row in base.policies if row.name in new}
    return same | {rename.base: rename.head for rename in renamed}


def _by_meaning(plan: Plan, rows: Iterable[PolicyRow]) -> dict[Hashable, list[str]]:
    """Names of policies by their meaning: two policies with one key do the same to the same requests."""
    chosen = {row.name: row.content for row in rows}
    if not chosen:
        return {}
    calls: dict[str, set[tuple[str, str, int]]] = {name: set() for name in chosen}
    for row in plan.enforcements:
        if row.policy in calls:
            calls[row.policy].add((row.source, row.destination, row.port))
    kinds = {row.name: row.kind for row in plan.policies}
    names_by_meaning: dict[Hashable, list[str]] = {}
    for name, content in chosen.items():
        names_by_meaning.setdefault((kinds[name], meaning(content), frozenset(calls[name])), []).append(name)
    return names_by_meaning


def meaning(content: PolicyContent) -> PolicyContent:
    """The content without the parts whose change is no difference: paths of files, places, and the order of callers."""
    return replace(
        content,
        arguments=tuple(
            replace(argument, value=None)
            if argument.sha256 is not None
            else replace(argument, value=tuple(sorted(map(str, argument.value))))
            if argument.type == "[caller]" and isinstance(argument.value, tuple)
            else argument
            for argument in content.arguments
        ),
        places=(),
    )
