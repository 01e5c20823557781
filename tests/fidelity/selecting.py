"""Which policies a call meets, and whether a `when` holds. From docs/language.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dsl.match import And, Comparison, Match, Not, Operator, Or
from dsl.program import External, Policy, Port, Program, Service, callee

if TYPE_CHECKING:
    from dsl.program import Value
    from tests.fidelity.message import Message


def port_of(program: Program, name: str, number: int | None = None) -> Port:
    """A port of a service or external by number; the only one where no number is given."""
    party: Service | External = program.services.get(name) or program.externals[name]
    if number is None:
        return party.ports[0]
    return next(port for port in party.ports if port.number == number)


def target(program: Program, value: Value) -> tuple[str, Port]:
    """The service and port that a `service` argument names."""
    name, number = callee(value)
    return name, port_of(program, name, number)


def called(policy: Policy) -> tuple[str, ...]:
    """The services that a policy makes an ADM call by itself."""
    return tuple(
        callee(policy.arguments[parameter.name])[0]
        for parameter in policy.kind.parameters
        if parameter.type.name == "service"
    )


def policies_of(program: Program, source: str, destination: str, port: Port) -> tuple[Policy, ...]:
    """The policies on a call, declared or not, in declared order: the first is outermost."""
    known = source in program.services or source in program.externals
    return tuple(
        policy
        for policy in program.policies
        if destination in policy.destinations
        and (source in policy.sources if known else policy.open_sources)
        and (policy.ports is None or port.number in policy.ports)
        and port.protocol in policy.kind.protocols
    )


def holds(match: Match | None, message: Message) -> bool:
    """Whether a policy's `when` selects a request as it is where the policy meets it."""
    if match is None:
        return True
    if isinstance(match, And):
        return all(holds(each, message) for each in match.operands)
    if isinstance(match, Or):
        return any(holds(each, message) for each in match.operands)
    if isinstance(match, Not):
        return not holds(match.operand, message)
    if match.operator is Operator.NOT_EQUALS:
        return not _satisfied(match._replace(operator=Operator.EQUALS), message)
    return _satisfied(match, message)


def _satisfied(comparison: Comparison, message: Message) -> bool:
    return any(_compares(comparison, value) for value in _values(comparison, message))


def _values(comparison: Comparison, message: Message) -> list[str]:
    """A header is a list: the whole of it is compared, and each element. Of `cookie`, each cookie alone."""
    if comparison.field.name == "path":
        return [message.path.partition("?")[0]]
    if comparison.field.name == "method":
        return [message.method]
    if comparison.field.name == "host":
        return _hosts(comparison, message)
    lines = message.values(str(comparison.field.header))
    if not lines:
        return []
    if comparison.field.header == "cookie":
        return [cookie.strip() for line in lines for cookie in re.split("[;,]", line)]
    whole = ",".join(lines)
    return [whole, *(element.strip() for element in whole.split(","))]


def _hosts(comparison: Comparison, message: Message) -> list[str]:
    """The name before the port, in small letters; what is not asked for equality may also see its final dot."""
    found = []
    for line in message.values("host"):
        before, colon, after = line.lower().rpartition(":")
        name = before if colon and "]" not in after else line.lower()
        found.append(name[:-1] if name.endswith(".") else name)
        if name.endswith(".") and comparison.operator is not Operator.EQUALS:
            found.append(name)
    if comparison.operator is Operator.MATCHES:
        return [name for name in found if ":" not in name]
    return found


def _compares(comparison: Comparison, value: str) -> bool:
    if comparison.operator is Operator.EQUALS:
        return value == comparison.value
    if comparison.operator is Operator.STARTS_WITH:
        return value.startswith(comparison.value)
    flags = re.IGNORECASE if comparison.field.name == "host" else re.NOFLAG
    return re.fullmatch(comparison.value, value, flags) is not None
