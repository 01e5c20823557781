"""The bodies of services and externals: the items in their braces.

An item with an error is reported, and the service or external is made all the same.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

from dsl import units
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.program import External, Port, Protocol, Service
from dsl.syntax import tree
from dsl.text import Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Number = TypeVar("_Number", int, float)

MAX_REPLICAS = 100_000
_PORTS = (1, 65535)
_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_LABEL_KEY = re.compile(r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_HOST = re.compile(
    r"(?=.{1,253}\Z)(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
)


def report(wrong: units.BadNumber, span: Span, diagnostics: Diagnostics) -> None:
    diagnostics.error(wrong.code, wrong.message, span, hint=wrong.hint)


class Once:
    """Returns whether an item of a body is given for the first time, and reports it otherwise."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.seen: dict[str, Span] = {}

    def __call__(self, key: str, span: Span) -> bool:
        if key in self.seen:
            self.diagnostics.error(
                "ADM109",
                f"{key} is given twice",
                span,
                hint="keep one of them",
                related=(Related(self.seen[key], "first given here"),),
            )
            return False
        self.seen[key] = span
        return True


def _port(item: tree.PortItem, once: Once, diagnostics: Diagnostics) -> Port | None:
    number = units.integer(item.number.text, *_PORTS, what="a port")
    target = number if item.target is None else units.integer(item.target.text, *_PORTS, what="a port")
    if isinstance(number, units.BadNumber):
        report(number, item.number.span, diagnostics)
        return None
    if isinstance(target, units.BadNumber):
        if item.target is not None:
            report(target, item.target.span, diagnostics)
        return None
    if not once(f"port `{number}`", item.span):
        return None
    if item.name is not None and not once(f"port `{item.name.text}`", item.name.span):
        return None
    return Port(number, Protocol(item.protocol.text), target, None if item.name is None else item.name.text)


def _ports(items: Iterable[tree.BodyItem], once: Once, diagnostics: Diagnostics) -> tuple[Port, ...]:
    ports = (_port(item, once, diagnostics) for item in items if isinstance(item, tree.PortItem))
    return tuple(sorted(port for port in ports if port is not None))


def services(statement: tree.Service, names: Sequence[tree.Word], diagnostics: Diagnostics) -> Iterable[Service]:
    replicas = 1
    capacity: float | None = None
    namespace = "default"
    labels: tree.Labels | None = None
    flags: dict[str, Span] = {}
    once = Once(diagnostics)
    ports = _ports(statement.items, once, diagnostics)
    for item in statement.items:
        if isinstance(item, tree.PortItem):
            continue
        if isinstance(item, tree.Flag):
            if once(f"`{item.name}`", item.span):
                flags[item.name] = item.span
        elif isinstance(item, tree.Labels):
            if once("`labels`", item.span):
                labels = item
                _check_labels(item, names, diagnostics)
        elif once(f"`{item.name}`", item.span):
            value = item.value
            if item.name == "replicas":
                replicas = _or(
                    units.integer(written(value), 1, MAX_REPLICAS, "a number of replicas"), 1, value.span, diagnostics
                )
            elif item.name == "capacity":
                capacity = _or(
                    units.decimal(written(value), 0.001, 100_000, "a capacity in CPU cores"),
                    1.0,
                    value.span,
                    diagnostics,
                )
            else:
                namespace = written(value)
                if _NAMESPACE.fullmatch(namespace) is None:
                    hint = "lower-case letters, digits and `-`, at most 63 characters"
                    diagnostics.error("ADM210", f"`{namespace[:60]}` is not a namespace", value.span, hint=hint)
    note = min(flags.values(), key=lambda span: span.start) if flags else None
    for word in names:
        yield Service(
            word.text,
            ports,
            word.span,
            replicas,
            _labels(labels, word.text),
            namespace,
            capacity,
            "no adm" not in flags,
            "untrusted" not in flags,
            "host_network" in flags,
            note,
        )


def written(value: tree.Number | tree.String | tree.Word) -> str:
    return value.value if isinstance(value, tree.String) else value.text


def _or(value: _Number | units.BadNumber, instead: _Number, span: Span, diagnostics: Diagnostics) -> _Number:
    if isinstance(value, units.BadNumber):
        report(value, span, diagnostics)
        return instead
    return value


def _labels(item: tree.Labels | None, name: str) -> dict[str, str] | None:
    """The labels of the service `name`."""
    if item is None or not item.labels:
        return None
    labels = {label.key: name if isinstance(label, tree.OwnLabel) else label.value for label in item.labels}
    return {key: labels[key] for key in sorted(labels)}


def _check_labels(item: tree.Labels, names: Sequence[tree.Word], diagnostics: Diagnostics) -> None:
    seen: set[str] = set()
    for label in item.labels:
        if label.key in seen:
            diagnostics.error("ADM109", f"label `{label.key}` is given twice", label.span, hint="keep one of them")
            continue
        seen.add(label.key)
        own = isinstance(label, tree.OwnLabel)
        values = [word.text for word in names] if isinstance(label, tree.OwnLabel) else [label.value]
        wrong = next((value for value in values if not _LABEL_VALUE.fullmatch(value)), None)
        if wrong is None and not _LABEL_KEY.fullmatch(label.key):
            wrong = next(iter(values), "")
        if wrong is not None:
            diagnostics.error(
                "ADM210",
                f'`{label.key[:60]} = "{wrong[:60]}"` is not a label that Kubernetes accepts',
                label.span,
                cause="a label without a value has the name of its service" if own else None,
                hint="letters, digits, `-`, `_` and `.`, at most 63 characters, with a letter or digit at both ends",
            )
    for one, other in pairwise(item.labels):
        if isinstance(one, tree.OwnLabel) and isinstance(other, tree.OwnLabel):
            _check_apart(one, other, diagnostics)


def _check_apart(one: tree.OwnLabel, other: tree.OwnLabel, diagnostics: Diagnostics) -> None:
    """Reports two labels such as `tier db`, which are more likely one label whose `=` is missing."""
    between = one.span.source.text[one.span.end : other.span.start]
    if "," in between or "\n" in between:
        return
    diagnostics.error(
        "ADM010",
        f"`{one.key[:60]}` and `{other.key[:60]}` are two labels without a value on one line",
        Span(one.span.source, one.span.start, other.span.end),
        cause="a label without a value has the name of its service",
        hint=f'write `{one.key[:60]} = "{other.key[:60]}"` if that is its value, or put a `,` between them if each has '
        "the name of the service",
    )


def externals(statement: tree.External, names: Sequence[tree.Word], diagnostics: Diagnostics) -> Iterable[External]:
    addresses: dict[str, list[str]] = {"host": [], "cidr": []}
    once = Once(diagnostics)
    ports = _ports(statement.items, once, diagnostics)
    for item in statement.items:
        if isinstance(item, tree.Attribute):
            given = written(item.value)
            value = _host(given) if item.name == "host" else _cidr(given)
            if isinstance(value, units.BadNumber):
                report(value, item.value.span, diagnostics)
            elif once(f'`{item.name} "{value}"`', item.span):
                addresses[item.name].append(value)
    for word in names:
        yield External(word.text, word.span, ports, tuple(sorted(addresses["host"])), tuple(sorted(addresses["cidr"])))


def _host(text: str) -> str | units.BadNumber:
    if ":" in text:
        import ipaddress

        try:
            address = ipaddress.IPv6Address(text)
        except ValueError:
            pass
        else:
            if address.ipv4_mapped is not None:
                return _mapped("host", text, str(address.ipv4_mapped))
            if address.is_unspecified:
                return _of_no_host(text)
            return str(address)
    elif text == "0.0.0.0":  # noqa: S104 - refused, not bound
        return _of_no_host(text)
    elif _HOST.fullmatch(text):
        return text.lower()
    return units.BadNumber(
        "ADM210", f"`{text[:60]}` is not a host name or an address", 'write `host "api.example.com"`'
    )


def _mapped(item: str, text: str, plain: str) -> units.BadNumber:
    """The error of an IPv4 address that is written as IPv6. No connection has such an address, so a policy about it
    would apply to no connection."""
    return units.BadNumber("ADM210", f"`{text[:60]}` is IPv4, written as IPv6", f'write `{item} "{plain}"`')


def _of_no_host(text: str) -> units.BadNumber:
    return units.BadNumber("ADM210", f"`{text[:60]}` is not the address of a host", "write the address that is dialled")


def _cidr(text: str) -> str | units.BadNumber:
    import ipaddress

    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        pass
    else:
        if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96:
            plain = network.network_address.ipv4_mapped
            if plain is not None:
                return _mapped("cidr", text, f"{plain}/{network.prefixlen - 96}")
        return _of_no_host(text) if network.num_addresses == 1 and network.is_unspecified else str(network)
    try:
        meant = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return units.BadNumber("ADM210", f"`{text[:60]}` is not an address range", 'write `cidr "10.9.0.0/16"`')
    return units.BadNumber("ADM210", f"`{text}` has bits set outside its range", f'write `cidr "{meant}"`')
