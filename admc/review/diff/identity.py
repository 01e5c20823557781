"""Which policy of HEAD is which of BASE, so that a rename is no change.

A policy keeps its name, or it is renamed: its unique partner, with another name, does the same to the same requests.
Calls are the same by source, destination and port, and decisions by policy and destination. Lines, paths and digests of
a program are no part of this.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

from admc.compile.plan.model import Plan, PolicyContent, PolicyRow
from admc.review.diff.model import Rename
from admc.review.diff.parties import in_names_of


def renames(base: Plan, head: Plan) -> tuple[Rename, ...]:
    """Policies of BASE whose only equal under another name is one policy of HEAD, by BASE's name."""
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
    """BASE's name -> HEAD's name of each policy that both plans have."""
    new = {row.name for row in head.policies}
    same = {row.name: row.name for row in base.policies if row.name in new}
    return same | {rename.base: rename.head for rename in renamed}


def _by_meaning(plan: Plan, rows: Iterable[PolicyRow]) -> dict[Hashable, list[str]]:
    """Names of policies by what they do to which requests."""
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
    """The content without what is no difference: the paths of files, the sides, and the order of callers."""
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
        sides=(),
    )
