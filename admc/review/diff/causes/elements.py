"""A program as a set of elements (a service, a call, a policy, the order of the policies) that change one by one.

    statements -> [Elements] -> changes

A statement with several names (`call a -> b, c`) becomes several elements, so that an added call is one change.
`hybrid` builds a program between BASE and HEAD: BASE with some of the changes of HEAD.
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
    """The content of the element without its place in the text: equal for two elements that differ in place alone."""
    span: Span


class Elements(NamedTuple):
    """The elements of one program. `order` has the names of its policies as declared."""

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
    """The elements that differ, in canonical order. Another `app` is left out: it has no effect on placements."""
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
        yield ("pin", f"{statement.policy.text} at {statement.place.text}{scope}"), statement
    elif isinstance(statement, tree.Objective | tree.Profile | tree.App):
        yield (type(statement).__name__.lower(), ""), statement
    elif isinstance(statement, tree.NetworkPolicies):
        yield ("network_policies", "enforced"), statement
    elif isinstance(statement, tree.Accept):
        yield ("accept", "host_network"), statement


def _unused(key: Key, used: Mapping[Key, Element]) -> Key:
    """The key, with a number if it is used: two pins may have the same text."""
    word, name = key
    number = 2
    while key in used:
        key = (word, f"{name} ({number})")
        number += 1
    return key


def _from(first: Span, whole: Span) -> Span:
    """The span of a name that stands on another line than its statement begins; else the span of the statement."""
    return first if first.line != whole.line else whole


def _callee(callee: tree.Reference) -> str:
    port = "" if callee.port is None else f":{callee.port.text}"
    return f"{callee.name.text}{port}"


def _words(span: Span) -> str:
    return " ".join(span.text.split())


def _shape(node: object) -> object:
    """A node of the syntax tree without its spans."""
    if isinstance(node, tuple):
        names = getattr(node, "_fields", None)
        if names is None:
            return tuple(_shape(item) for item in node)
        items = zip(names, node, strict=True)
        return (type(node).__name__, *(_shape(item) for name, item in items if name != "span"))
    return node


def _content(statement: tree.Statement, given: Statements) -> bytes | None:
    """The content of the file of a profile, since costs follow from it. No other file has an effect on placements."""
    if not isinstance(statement, tree.Profile) or not isinstance(statement.named, tree.String):
        return None
    # The path is relative to the file with the statement. The program was read without errors, so the path is valid.
    path = resolve_path(statement.named.value, statement.span.source, statement.named.span, Diagnostics())
    return None if path is None else given.read(path)


def hybrid(base: Elements, head: Elements, changed: Collection[Key], applied: Collection[Key]) -> Program:
    """BASE with the elements of HEAD for the keys in `applied`, a subset of all `changed` keys.

    Raises `ProgramError` if the elements together are no valid program.
    """

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
    """The names of both, in the order of `leading`. A name that only `following` has keeps its predecessor there.

    >>> merged(("a", "b"), ("b", "x", "a"))
    ('a', 'b', 'x')
    """
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
    """Reads the files of both programs. A path in both is read from the program whose profile is used.

    That is enough, since no file but that of the profile has an effect on placements.
    """
    first, second = (head, base) if profile_of_head else (base, head)

    def read(path: str) -> bytes:
        try:
            return first.given.read(path)
        except FileNotFoundError:
            return second.given.read(path)

    return read
