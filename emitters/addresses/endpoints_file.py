"""Reads an endpoints file (docs/endpoints.md): the addresses of services and outside parties, as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from dsl.diagnostics.diagnostic import Diagnostics, Severity
from dsl.json_type import Json, RepeatedKeyError, without_repeats
from emitters.addresses.model import Addresses, Network, ServiceAddresses, network, order, text_of
from emitters.errors import EmitError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dsl.program import Program

MAX_ADDRESSES: Final = 1_000_000
"""In one endpoints file."""
_KEYS: Final = dict.fromkeys(ServiceAddresses._fields).keys()
"""Of an entry of a service."""


def from_json(
    data: bytes, program: Program | None = None, *, of_several: bool = False, before: Addresses | None = None
) -> Addresses:
    """Read an endpoints file (docs/endpoints.md). With a program, every name must be one of its own. `of_several`: the
    addresses are those of several programs, and a service of another one comes into `others`.

    `before`: what was read earlier. Services that are still as they are there are not examined again: a server reads
    the file of thousands of services whenever one pod comes or goes. Raises `EmitError` with all findings.
    """
    findings = Diagnostics()
    try:
        content = json.loads(data, object_pairs_hook=without_repeats)
    except RepeatedKeyError as error:
        _wrong(findings, f"`{str(error)[:80]}` is there twice", "give all addresses of a name in one entry")
        raise EmitError(findings.items) from None
    except (ValueError, RecursionError) as error:
        _wrong(findings, f"it is not JSON: {_reason(error)}")
        raise EmitError(findings.items) from None
    services: dict[str, ServiceAddresses] = {}
    externals: dict[str, tuple[str, ...]] = {}
    left = [MAX_ADDRESSES]
    earlier = {} if before is None else {**before.others, **before.services}
    for section, entries in _entries(findings, content, "the file", ("services", "externals")):
        known = None if program is None else program.services if section == "services" else program.externals
        if of_several and section == "services":
            known = None
        for name, entry in _entries(findings, entries, f"`{section}`", known):
            where = f"`{section}.{name}`"
            if section == "externals":
                found = dict(_entries(findings, entry, where, ("addresses",)))
                externals[name] = _addresses(findings, found.get("addresses", []), f"{where}", left, networks=True)
                continue
            same = earlier.get(name)
            if same is not None and _is_as_before(entry, same, left):
                services[name] = same
                continue
            parts = {
                key: _addresses(findings, value, f"`{section}.{name}.{key}`", left, networks=False)
                for key, value in _entries(findings, entry, where, ("addresses", "pods", "unready"))
            }
            found_here = ServiceAddresses(parts.get("addresses", ()), parts.get("pods", ()), parts.get("unready", ()))
            for pod in sorted(set(found_here.unready) - set(found_here.pods)):
                hint = "`unready` says which of the `pods` get no new requests: list it in both"
                _wrong(findings, f"{where} has the unready pod `{pod}`, which is not one of its `pods`", hint)
            services[name] = found_here
    if findings.has_errors:
        raise EmitError(findings.items)
    if program is None:
        return Addresses(services, externals)
    own = {name: located for name, located in services.items() if name in program.services}
    others = {name: located for name, located in services.items() if name not in own}
    return Addresses(own, externals, others=others)


def _is_as_before(entry: Json, before: ServiceAddresses, left: list[int]) -> bool:
    """Whether an entry says what was read earlier, in canonical form and order."""
    if not isinstance(entry, dict) or not entry.keys() <= _KEYS:
        return False
    lists = [entry.get(key, []) for key in _KEYS]
    for value, known in zip(lists, before, strict=True):
        if not isinstance(value, list) or tuple(value) != known:
            return False
    count = sum(map(len, before))
    if count > left[0]:
        return False
    left[0] -= count
    return True


def _reason(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} at line {error.lineno} column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else "not UTF-8 text"


def _wrong(findings: Diagnostics, message: str, hint: str | None = None) -> None:
    if findings.full:
        findings.drop(Severity.ERROR)
        return
    findings.error(
        "ADM712",
        f"the endpoints file cannot be used: {message}",
        None,
        hint=hint or 'its shape is {"services": {"search": {"addresses": ["10.0.0.1"], "pods": ["10.1.0.1"]}}}',
    )


def _entries(
    findings: Diagnostics, value: Json, where: str, known: Collection[str] | None
) -> Iterator[tuple[str, Json]]:
    """The entries of an object, in the order of names, without unknown names."""
    if not isinstance(value, dict):
        _wrong(findings, f"{where} is not an object")
        return
    for name in sorted(value):
        if known is not None and name not in known:
            _wrong(findings, f"{where} has an unknown name `{name}`", findings.did_you_mean(name, known))
        else:
            yield name, value[name]


def _addresses(findings: Diagnostics, value: Json, where: str, left: list[int], *, networks: bool) -> tuple[str, ...]:
    if not isinstance(value, list):
        _wrong(findings, f"{where} is not a list of addresses")
        return ()
    left[0] -= len(value)
    if left[0] < 0:
        _wrong(
            findings, f"it has more than {MAX_ADDRESSES:,} addresses", "split the program, or leave out what is unused"
        )
        return ()
    found: set[Network] = set()
    for item in value:
        try:
            if not isinstance(item, str) or ("/" in item and not networks) or "%" in item:
                raise ValueError(item)
            one = network(item, strict=True)
            if one.num_addresses == 1 and _of_no_host(one):
                hint = "list the address by which other services reach it"
                _wrong(findings, f"{where} has `{item}`, which is the address of no host", hint)
            found.add(one)
        except ValueError:
            kind = "an address or a network" if networks else "an address"
            _wrong(findings, f"{where} has `{str(item)[:80]}`, which is not {kind}", "write `10.0.0.1` or `fd00::1`")
    return tuple(map(text_of, sorted(found, key=order)))


def _of_no_host(one: Network) -> bool:
    """The unspecified address, the broadcast address, or a multicast group: no single service can be dialled there."""
    return one.is_unspecified or one.is_multicast or str(one.network_address) == "255.255.255.255"
