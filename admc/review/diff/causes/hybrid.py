"""A program between two: BASE with some of the changes of HEAD."""

from __future__ import annotations

from collections.abc import Callable, Collection

from admc.review.diff.causes.elements import ORDER, PROFILE, Elements, Key
from dsl.loader import Statements, resolve_statements
from dsl.program import Program
from dsl.syntax import tree


def hybrid(base: Elements, head: Elements, changed: Collection[Key], applied: Collection[Key]) -> Program:
    """BASE with those of `changed` that are in `applied`. Raises `ProgramError` where that is no program."""

    def chosen(key: Key) -> tree.Statement | None:
        side = head if key in applied or key not in changed else base
        element = side.by_key.get(key)
        return None if element is None else element.statement

    leading, following = (head, base) if ORDER in applied or ORDER not in changed else (base, head)
    order = merged(leading.order, following.order)
    keys = sorted(base.by_key.keys() | head.by_key.keys())
    found = [chosen(key) for key in keys if key[0] not in ("policy", "app")]
    found += [chosen(("policy", name)) for name in order]
    found.append(head.by_key["app", ""].statement)
    read = _read(base, head, PROFILE in applied or PROFILE not in changed)
    return resolve_statements(Statements(head.given.source, tuple(each for each in found if each is not None), read))


def merged(leading: tuple[str, ...], following: tuple[str, ...]) -> tuple[str, ...]:
    """The names of both, in the order of `leading`; what only `following` has comes after the same name as there."""
    known = set(leading)
    after: dict[str | None, list[str]] = {}
    last: str | None = None
    for name in following:
        if name in known:
            last = name
        else:
            after.setdefault(last, []).append(name)
    found = after.get(None, [])
    for name in leading:
        found = [*found, name, *after.get(name, [])]
    return tuple(found)


def _read(base: Elements, head: Elements, profile_of_head: bool) -> Callable[[str], bytes]:
    """Files of both programs. Only the file of a profile decides anything, and it is that of the chosen statement."""
    first, second = (head, base) if profile_of_head else (base, head)

    def read(path: str) -> bytes:
        try:
            return first.given.read(path)
        except FileNotFoundError:
            return second.given.read(path)

    return read
