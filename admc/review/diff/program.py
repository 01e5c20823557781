"""The changes of the program: services, externals, calls, policies and files of arguments that came, went or changed.

    plan, plan -> [Named]

Lines, paths, digests of programs and the order of elements that commute are no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from admc.review.diff.model import Named
from admc.review.diff.written import argument_text, number_text, port_text, rate_text, size_text
from dsl.text import quoted

if TYPE_CHECKING:
    from admc.compile.plan.model import (
        ArgumentRow,
        CallRow,
        ExternalRow,
        LabelRow,
        Plan,
        PolicyRow,
        PortRow,
        ServiceRow,
        SourceLine,
    )
    from admc.review.diff.names import Names

CAME: Final = "came"
WENT: Final = "went"
CHANGED: Final = "changed"
_NOTHING: Final = "nothing"
_Row = TypeVar("_Row")
_DIGEST: Final = 12
"""The characters of a digest that a reader sees."""
_SHOWN: Final = 5
"""The names that a sentence lists of those that came into a set or left it: a scope may have thousands."""
_Facts = Mapping[str, str | frozenset[str] | None]
"""The properties of a row: name of the property in the language -> its text."""


def changes(base: Plan, head: Plan, names: Names) -> tuple[Named, ...]:
    return (
        *_rows("service", base.services, head.services, lambda row: row.name, _service, lambda row: row.line),
        *_rows("external", base.externals, head.externals, lambda row: row.name, _external, lambda row: row.line),
        *_calls(base, head),
        *_policies(base, head, names),
        *_files(base, head),
    )


def _rows(
    kind: str,
    before: Sequence[_Row],
    after: Sequence[_Row],
    name: Callable[[_Row], str],
    facts: Callable[[_Row], _Facts],
    line: Callable[[_Row], SourceLine],
) -> Iterator[Named]:
    old, new = {name(row): row for row in before}, {name(row): row for row in after}
    for row_name in sorted(old.keys() | new.keys()):
        if row_name not in old:
            yield Named(kind, row_name, CAME, None, line(new[row_name]))
        elif row_name not in new:
            yield Named(kind, row_name, WENT, None, line(old[row_name]))
        else:
            text = _changed(facts(old[row_name]), facts(new[row_name]))
            if text is not None:
                yield Named(kind, row_name, CHANGED, text, line(new[row_name]))


def _changed(before: _Facts, after: _Facts) -> str | None:
    parts = [
        f"{what} {_difference(before.get(what), after.get(what))}"
        for what in dict.fromkeys((*before, *after))
        if before.get(what) != after.get(what)
    ]
    return ", ".join(parts) or None


def _difference(old: str | frozenset[str] | None, new: str | frozenset[str] | None) -> str:
    if isinstance(old, frozenset) and isinstance(new, frozenset):
        return " ".join((*_signed("+", new - old), *_signed("-", old - new)))
    return f"{_text(old)} -> {_text(new)}"


def _signed(sign: str, names: frozenset[str]) -> list[str]:
    shown = [sign + name for name in sorted(names)[:_SHOWN]]
    return shown if len(names) <= _SHOWN else [*shown, f"{sign}{len(names) - _SHOWN} more"]


def _text(value: str | frozenset[str] | None) -> str:
    if isinstance(value, frozenset):
        return "{" + ", ".join(name[1:] for name in _signed("+", value)) + "}"
    return value or _NOTHING


def _service(row: ServiceRow) -> _Facts:
    return {
        "replicas": number_text(row.replicas),
        "ports": _ports(row.ports),
        "namespace": row.namespace,
        "labels": _labels(row.labels),
        "capacity": None if row.capacity is None else number_text(row.capacity),
        "adm": "possible" if row.hosts_adm else "`no adm`",
        "trust": "trusted" if row.trusted else "`untrusted`",
        "network": "`host_network`" if row.host_network else "its own",
    }


def _external(row: ExternalRow) -> _Facts:
    return {"ports": _ports(row.ports), "host": _list(row.hosts), "cidr": _list(row.cidrs)}


def _ports(ports: Sequence[PortRow]) -> str | None:
    return ", ".join(port_text(port) for port in ports) or None


def _labels(labels: Sequence[LabelRow] | None) -> str | None:
    if labels is None:
        return None
    return "{" + ", ".join(f"{label.name} = {quoted(label.value)}" for label in labels) + "}"


def _list(names: Sequence[str]) -> str | None:
    return ", ".join(names) or None


def _calls(base: Plan, head: Plan) -> Iterator[Named]:
    several = {row.name for plan in (base, head) for row in plan.services if row.ports[1:]}
    several.update(row.name for plan in (base, head) for row in plan.externals if row.ports[1:])

    def name(row: CallRow) -> str:
        port = f":{row.port}" if row.destination in several else ""
        return f"{row.source} -> {row.destination}{port}"

    yield from _rows("call", base.calls, head.calls, name, _call, lambda row: row.line)


def _call(row: CallRow) -> _Facts:
    return {"rate": rate_text(row.rate), "size": size_text(row.size)}


def _policies(base: Plan, head: Plan, names: Names) -> Iterator[Named]:
    """The changed policies, by their names in HEAD. A policy that was only renamed is not among them."""
    before = [replace(row, name=names.in_head(row.name)) for row in base.policies]
    return _rows("policy", before, head.policies, lambda row: row.name, _policy, lambda row: row.line)


def _policy(row: PolicyRow) -> _Facts:
    content = row.content
    return {
        "kind": row.kind,
        **{argument.name: _argument(argument) for argument in content.arguments},
        "sources": "*" if content.open else frozenset(content.sources),
        "except": frozenset(content.excluded),
        "destinations": frozenset(content.destinations),
        "ports": None if content.ports is None else ", ".join(map(str, content.ports)),
        "when": content.when,
        "places": " and ".join(content.places),
        "template": content.template_sha256,
    }


def _argument(argument: ArgumentRow) -> str | frozenset[str] | None:
    """The argument as it is compared: the content of a file instead of its path, and callers without their order."""
    if argument.sha256 is not None:
        return f"sha256 {argument.sha256[:_DIGEST]}"
    value: object = argument.value
    if argument.type == "[caller]" and isinstance(value, tuple):
        return frozenset(map(str, value))
    return argument_text(argument)


def _files(base: Plan, head: Plan) -> Iterator[Named]:
    """The files of arguments whose content changed under the same path."""
    before, after = _digests(base), _digests(head)
    for path in sorted(before.keys() & after.keys()):
        if before[path] != after[path]:
            yield Named("file", path, CHANGED, None, None)


def _digests(plan: Plan) -> dict[str, str]:
    return {
        str(argument.value): argument.sha256
        for row in plan.policies
        for argument in row.content.arguments
        if argument.sha256 is not None
    }
