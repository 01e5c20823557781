"""A program as elements that come, go and change one by one: a service, a call, a policy, the order of the policies.

    statements -> [Elements] -> changes

A statement about several names (`call a -> b, c`) is several elements, so a call that is added to it is one change.

`hybrid` makes a program between two: BASE with some of the changes of HEAD.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from dsl.diagnostics.diagnostic import Diagnostics
from dsl.files.reading import resolve_path
from dsl.loader import Statements, resolve_statements
from dsl.program import Program
from dsl.syntax import tree
from dsl.text import Span

ORDER: Final = ("order", "")
PROFILE: Final = ("profile", "")
_ORDERED: Final = "policy"

Key = tuple[str, str]
"""The keyword of an element, and its name."""


class Element(NamedTuple):
    statement: tree.Statement
    shape: object
    """Equal for two elements that say the same, wherever they stand."""
    span: Span


class Elements(NamedTuple):
    """One program. `order` has the names of its policies as declared."""

    by_key: Mapping[Key, Element]
    order: tuple[str, ...]
    given: Statements


class Change(NamedTuple):
    """One element that came, went or changed; None where a side lacks it."""

    key: Key
    base: Element | None
    head: Element | None

    @property
    def verb(self) -> str:
        if self.base is None:
            return "came"
        return "went" if self.head is None else "changed"


def elements_of(given: Statements) -> Elements:
    by_key: dict[Key, Element] = {}
    order: list[str] = []
    for statement in given.statements:
        for key, single in _single(statement):
            if key[0] == _ORDERED:
                order.append(key[1])
            element = Element(single, (_shape(single), _content(single, given)), single.span)
            by_key[_unused(key, by_key)] = element
    return Elements(by_key, tuple(order), given)


def changes(base: Elements, head: Elements) -> tuple[Change, ...]:
    """What differs, in canonical order. The name of the application is no change: it decides nothing."""
    differences = []
    for key in sorted(base.by_key.keys() | head.by_key.keys()):
        one, other = base.by_key.get(key), head.by_key.get(key)
        if one is None or other is None or one.shape != other.shape:
            differences.append(Change(key, one, other))
    common = set(base.order) & set(head.order)
    if [name for name in base.order if name in common] != [name for name in head.order if name in common]:
        differences.append(Change(ORDER, None, None))
    return tuple(change for change in differences if change.key[0] != "app")


def _single(statement: tree.Statement) -> Iterator[tuple[Key, tree.Statement]]:
    if isinstance(statement, tree.Service | tree.External):
        word = "service" if isinstance(statement, tree.Service) else "external"
        for name in statement.names:
            yield (word, name.text), statement._replace(names=(name,), span=_from(name.span, statement.span))
    elif isinstance(statement, tree.Call):
        for source in statement.sources:
            for callee in statement.destinations:
                span = statement.span if len(statement.destinations) == 1 else callee.span
                single = statement._replace(sources=(source,), destinations=(callee,), span=span)
                yield ("call", f"{source.text} -> {_callee(callee)}"), single
    elif isinstance(statement, tree.Kind | tree.Policy | tree.Request):
        yield (type(statement).__name__.lower(), statement.name.text), statement
    elif isinstance(statement, tree.Pin):
        scope = "" if statement.scope is None else f" on {_words(statement.scope.span)}"
        yield ("pin", f"{statement.policy.text} at {statement.side.text}{scope}"), statement
    elif isinstance(statement, tree.Objective | tree.Profile | tree.App):
        yield (type(statement).__name__.lower(), ""), statement


def _unused(key: Key, used: Mapping[Key, Element]) -> Key:
    """The key itself, or with a number: two pins may be the same line."""
    word, name = key
    number = 2
    while key in used:
        key = (word, f"{name} ({number})")
        number += 1
    return key


def _from(first: Span, whole: Span) -> Span:
    """The line of one name among several, which may stand on lines of their own."""
    return first if first.line != whole.line else whole


def _callee(callee: tree.Reference) -> str:
    port = "" if callee.port is None else f":{callee.port.text}"
    return f"{callee.name.text}{port}"


def _words(span: Span) -> str:
    return " ".join(span.text.split())


def _shape(node: object) -> object:
    """A part of the tree without its places."""
    if isinstance(node, tuple):
        names = getattr(node, "_fields", None)
        if names is None:
            return tuple(_shape(item) for item in node)
        items = zip(names, node, strict=True)
        return (type(node).__name__, *(_shape(item) for name, item in items if name != "span"))
    return node


def _content(statement: tree.Statement, given: Statements) -> bytes | None:
    """The file of a profile: it decides costs. No other file decides where a policy is enforced."""
    if not isinstance(statement, tree.Profile) or not isinstance(statement.named, tree.String):
        return None
    # The path is relative to the file that it stands in. The program was read without errors, so it has one.
    path = resolve_path(statement.named.value, statement.span.source, statement.named.span, Diagnostics())
    return None if path is None else given.read(path)


def hybrid(base: Elements, head: Elements, changed: Collection[Key], applied: Collection[Key]) -> Program:
    """BASE with those of `changed` that are in `applied`. Raises `ProgramError` where that is no program."""

    def chosen(key: Key) -> tree.Statement | None:
        side = head if key in applied or key not in changed else base
        element = side.by_key.get(key)
        return None if element is None else element.statement

    leading, following = (head, base) if ORDER in applied or ORDER not in changed else (base, head)
    order = merged(leading.order, following.order)
    keys = sorted(base.by_key.keys() | head.by_key.keys())
    statements = [chosen(key) for key in keys if key[0] not in ("policy", "app")]
    statements += [chosen(("policy", name)) for name in order]
    statements.append(head.by_key["app", ""].statement)
    read = _read(base, head, PROFILE in applied or PROFILE not in changed)
    return resolve_statements(
        Statements(head.given.source, tuple(statement for statement in statements if statement is not None), read)
    )


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
    names = after.get(None, [])
    for name in leading:
        names = [*names, name, *after.get(name, [])]
    return tuple(names)


def _read(base: Elements, head: Elements, profile_of_head: bool) -> Callable[[str], bytes]:
    """Files of both programs. Only the file of a profile decides anything, and it is that of the chosen statement."""
    first, second = (head, base) if profile_of_head else (base, head)

    def read(path: str) -> bytes:
        try:
            return first.given.read(path)
        except FileNotFoundError:
            return second.given.read(path)

    return read
