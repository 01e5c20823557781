"""What a cluster says of services, as one more input of a compile: it makes services worse, never better.

program, JSON --with_facts--> program

    {"schema_version": 1, "services": {"NAME": {"host_network": true, "no_adm": "REASON", "untrusted": "REASON"}}}
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from admc.exits import wrong_usage
from dsl.program import Input

if TYPE_CHECKING:
    from dsl.program import Program, Service

FACTS: Final = "cluster-facts.json"
"""The path of the document among the inputs of a plan."""


def with_facts(program: Program, content: bytes) -> Program:
    """Raises `CommandError` for a document of another form, or about other services."""
    if any(item.path == FACTS for item in program.inputs):
        raise wrong_usage("ADM940", f"the program uses a file with the name `{FACTS}`", hint="give it another name")
    try:
        document = json.loads(content)
        if document["schema_version"] != 1:
            raise ValueError("another schema")
        services = {name: _worse(program.services[name], facts) for name, facts in document["services"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise wrong_usage("ADM940", "what the cluster says of its services cannot be read", cause=str(error)) from error
    listed = Input(FACTS, hashlib.sha256(content).hexdigest())
    return replace(program, services={**program.services, **services}, inputs=(*program.inputs, listed))


def _worse(service: Service, facts: dict[str, Any]) -> Service:
    return replace(
        service,
        host_network=service.host_network or bool(facts.get("host_network")),
        hosts_adm=service.hosts_adm and not facts.get("no_adm"),
        trusted=service.trusted and not facts.get("untrusted"),
    )
