"""Reads an endpoints file (docs/endpoints.md): the addresses of services and outside parties, as JSON."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from dsl.collector import no_collection
from dsl.diagnostics.diagnostic import Diagnostics, Severity
from dsl.documents import DocumentError, Given, document, read
from emitters.addresses.model import Addresses, Network, ServiceAddresses, network, order, text_of
from emitters.errors import EmitError
from emitters.health_probes import probes_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dsl.program import Program

T = TypeVar("T")
MAX_ADDRESSES: Final = 1_000_000
"""Most addresses in one endpoints file."""
Listed = tuple[str, ...]


@document
class _Service:
    addresses: Given[Listed] = None
    pods: Given[Listed] = None
    unready: Given[Listed] = None
    apart: Given[Listed] = None

    @property
    def parts(self) -> tuple[Listed, Listed, Listed, Listed]:
        return self.addresses or (), self.pods or (), self.unready or (), self.apart or ()


@document
class _External:
    addresses: Given[Listed] = None


@document
class _EndpointsFile:
    services: Given[Mapping[str, _Service]] = None
    externals: Given[Mapping[str, _External]] = None


@document
class _ClusterDocument:
    """What a cluster gives in place of a file."""

    services: Given[Mapping[str, _Service]] = None
    externals: Given[Mapping[str, _External]] = None
    probes: Given[Mapping[str, str]] = None
    """Service -> the probes of its pods (`emitters.health_probes`)."""


@no_collection()
def from_json(
    data: bytes, program: Program | None = None, *, of_several: bool = False, before: Addresses | None = None
) -> Addresses:
    """Reads an endpoints file (docs/endpoints.md). With a program, every name must be one of its own. `of_several`: the
    addresses are those of several programs, and services of other programs go to `others`; outside parties are its own.

    `before`: the addresses from the previous reading. Services with the same addresses as there are not checked again:
    a server reads the file of thousands of services whenever one pod comes or goes. Raises `EmitError` with the
    findings.
    """
    findings = Diagnostics()
    try:
        content = data.removeprefix(BOM_UTF8)
        file = read(_ClusterDocument, content) if of_several else read(_EndpointsFile, content)
        probes = (file.probes or {}) if isinstance(file, _ClusterDocument) else {}
        for name, text in probes.items():
            if before is None or before.probes.get(name) != text:
                probes_of(text)
    except DocumentError as error:
        _wrong(findings, error.message, error.hint)
        raise EmitError(findings.items) from error
    left = [MAX_ADDRESSES]
    externals = {
        name: _addresses(findings, entry.addresses or (), f"`externals.{name}`", left, networks=True)
        for name, entry in _known(findings, file.externals, "externals", None if program is None else program.externals)
    }
    services: dict[str, ServiceAddresses] = {}
    earlier = {} if before is None else {**before.others, **before.services}
    known = None if program is None or of_several else program.services
    for name, entry in _known(findings, file.services, "services", known):
        same = earlier.get(name)
        if same is not None and entry.parts == same and (count := sum(map(len, same))) <= left[0]:
            # These addresses are valid, and in canonical form and order.
            left[0] -= count
            services[name] = same
            continue
        parts = (
            _addresses(findings, listed, f"`services.{name}.{key}`", left, networks=False)
            for key, listed in zip(ServiceAddresses._fields, entry.parts, strict=True)
        )
        located = ServiceAddresses(*parts)
        for part, listed in (("unready", located.unready), ("apart", located.apart)):
            for pod in sorted(set(listed) - set(located.pods)):
                hint = f"`{part}` says which of the `pods` get no new requests: list it in both"
                message = f"`services.{name}.{part}` has the pod `{pod}`, which is not one of its `pods`"
                _wrong(findings, message, hint)
        services[name] = located
    if findings.has_errors:
        raise EmitError(findings.items)
    if program is None or not of_several:
        return Addresses(services, externals)
    own = {name: located for name, located in services.items() if name in program.services}
    others = {name: located for name, located in services.items() if name not in own}
    return Addresses(own, externals, others=others, probes=probes)


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


def _known(
    findings: Diagnostics, entries: Mapping[str, T] | None, section: str, known: Collection[str] | None
) -> Iterator[tuple[str, T]]:
    """The entries of a section, in the order of names, without unknown names."""
    for name, entry in sorted((entries or {}).items()):
        if known is not None and name not in known:
            _wrong(findings, f"`{section}` has an unknown name `{name}`", findings.did_you_mean(name, known))
        else:
            yield name, entry


def _addresses(findings: Diagnostics, listed: Listed, where: str, left: list[int], *, networks: bool) -> Listed:
    left[0] -= len(listed)
    if left[0] < 0:
        _wrong(
            findings, f"it has more than {MAX_ADDRESSES:,} addresses", "split the program, or leave out what is unused"
        )
        return ()
    distinct: set[Network] = set()
    for address in listed:
        try:
            if ("/" in address and not networks) or "%" in address:
                raise ValueError(address)
            one = network(address, strict=True)
            if one.num_addresses == 1 and _of_no_host(one):
                hint = "list the address by which other services reach it"
                _wrong(findings, f"{where} has `{address}`, which is the address of no host", hint)
            distinct.add(one)
        except ValueError:
            kind = "an address or a network" if networks else "an address"
            _wrong(findings, f"{where} has `{address[:80]}`, which is not {kind}", "write `10.0.0.1` or `fd00::1`")
    return tuple(map(text_of, sorted(distinct, key=order)))


def _of_no_host(one: Network) -> bool:
    """Whether an address is unspecified, broadcast or multicast: no client can dial a single service there."""
    return one.is_unspecified or one.is_multicast or str(one.network_address) == "255.255.255.255"
