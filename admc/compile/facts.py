"""Facts of a program's services in a cluster, as a further input of a compile.

    program + document of facts --with_facts--> program with stricter marks of its services

A fact can only restrict a service, and never revokes a restriction of the program. The document has no fields for names
of pods and for counts. If the reasons have none either, it stays the same while services scale.
"""

from __future__ import annotations

import hashlib
import json
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.base.terminal import visible
from dsl.documents import DocumentError, Given, VersionError, document, fields_of, read
from dsl.program import Input, Mark

if TYPE_CHECKING:
    from pathlib import Path

    from dsl.program import Program, Service

FACTS: Final = "cluster-facts.json"
"""The name of the document among the inputs of a plan."""
MAX_BYTES: Final = 8_000_000
MAX_REASON: Final = 200
"""Characters."""
CODE: Final = "ADM945"
_HINT: Final = (
    'its shape is {"schema_version": 1, "services": {"search": {"host_network": true, "no_adm": "mirror pod", '
    '"untrusted": "container `x` has NET_ADMIN"}}}'
)


class ServiceFacts(NamedTuple):
    """The facts of one service."""

    host_network: bool = False
    no_adm: str = ""
    """The reason why the service cannot host an ADM; empty if it can."""
    untrusted: str = ""
    """The reason why requests of the service may bypass its ADM; empty if they cannot."""


NO_FACTS: Final = ServiceFacts()


@document
class _Entry:
    host_network: Given[bool] = None
    no_adm: Given[str] = None
    untrusted: Given[str] = None


@document
class _Facts:
    schema_version: Literal[1]
    services: Mapping[str, _Entry]


def to_json(facts: Mapping[str, ServiceFacts]) -> bytes:
    """The document in canonical form, with only the services that have a fact."""
    services = {
        name: {field: value for field, value in known._asdict().items() if value}
        for name, known in facts.items()
        if known != NO_FACTS
    }
    content = {"schema_version": 1, "services": services}
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def from_json(content: bytes) -> Mapping[str, ServiceFacts]:
    """Raises `CommandError`."""
    if len(content) > MAX_BYTES:
        raise _wrong(f"it has more than {MAX_BYTES:,} bytes")
    try:
        facts = read(_Facts, content.removeprefix(BOM_UTF8))
    except VersionError as error:
        raise _wrong(error.message, "use the admc that wrote it, or a newer one" if error.newer else None) from error
    except DocumentError as error:
        raise _wrong(error.message, error.hint) from error
    return {name: _facts(name, entry) for name, entry in facts.services.items()}


def with_facts(program: Program, content: bytes) -> Program:
    """Return the program in a cluster with these facts. Its inputs include the document, even without any fact.

    Services that the program does not have are ignored, because facts and program do not change at the same time.
    Raises `CommandError`.
    """
    facts = from_json(content)
    if any(item.path == FACTS for item in program.inputs):
        raise _wrong(f"the program has a file of its own named `{FACTS}`", "give that file another name")
    services = {name: _worse(service, facts.get(name, NO_FACTS)) for name, service in program.services.items()}
    main, *others = program.inputs
    added = Input(FACTS, hashlib.sha256(content).hexdigest())
    return replace(program, services=services, inputs=(main, *sorted((*others, added))))


def read_facts(path: Path) -> bytes:
    """The content of the file that a command line names. Raises `CommandError`."""
    from admc.base.files import read_bounded

    return read_bounded(path, MAX_BYTES, "the facts")


def _worse(service: Service, facts: ServiceFacts) -> Service:
    observed: dict[Mark, str] = {}
    if facts.host_network and not service.host_network:
        observed[Mark.HOST_NETWORK] = "a pod is on the host's network"
    if facts.no_adm and service.hosts_adm:
        observed[Mark.NO_ADM] = facts.no_adm
    if facts.untrusted and service.trusted:
        observed[Mark.UNTRUSTED] = facts.untrusted
    if not observed:
        return service
    return replace(
        service,
        hosts_adm=service.hosts_adm and not facts.no_adm,
        trusted=service.trusted and not facts.untrusted,
        host_network=service.host_network or facts.host_network,
        observed=observed,
    )


def _facts(name: str, entry: _Entry) -> ServiceFacts:
    where = f"`services.{visible(name[:100])}`"
    if entry.host_network is False:
        raise _wrong(f"`host_network` of {where} is not `true`")
    given = {field: value for field, value in fields_of(entry) if value is not None}
    for field, value in given.items():
        if isinstance(value, str) and (not 0 < len(value) <= MAX_REASON or not value.isprintable()):
            raise _wrong(f"`{field}` of {where} is no reason of at most {MAX_REASON} characters that print")
    return ServiceFacts(**given)


def _wrong(what: str, hint: str | None = None) -> CommandError:
    return wrong_usage(CODE, f"the facts of the cluster cannot be used: {what}", hint=hint or _HINT)
