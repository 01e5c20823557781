"""The parts of a program that a plan repeats: services, externals, calls, and the content of policies."""

from __future__ import annotations

import hashlib

from admc.compile.plan.model import (
    ArgumentRow,
    CallRow,
    EffectRow,
    ExternalRow,
    LabelRow,
    PolicyContent,
    PolicyRow,
    PortRow,
    ServiceRow,
    SourceLine,
)
from dsl.documents import Plain
from dsl.match_text import match_text
from dsl.program import Effect, FileArgument, Parameter, ParameterType, Place, Policy, Port, Program, Value
from dsl.text import Span


def line_of(span: Span) -> SourceLine:
    return SourceLine(span.source.path, span.line)


def service_rows(program: Program) -> tuple[ServiceRow, ...]:
    return tuple(
        ServiceRow(
            service.name,
            service.namespace,
            service.replicas,
            _ports(service.ports),
            None if service.labels is None else tuple(LabelRow(*pair) for pair in sorted(service.labels.items())),
            service.hosts_adm,
            service.trusted,
            service.host_network,
            service.capacity,
            line_of(service.span),
        )
        for service in program.services.values()
    )


def external_rows(program: Program) -> tuple[ExternalRow, ...]:
    return tuple(
        ExternalRow(external.name, _ports(external.ports), external.hosts, external.cidrs, line_of(external.span))
        for external in program.externals.values()
    )


def call_rows(program: Program) -> tuple[CallRow, ...]:
    return tuple(
        CallRow(call.source, call.destination, call.port.number, call.rate, call.size, line_of(call.span))
        for call in program.calls
    )


def policy_rows(program: Program) -> tuple[PolicyRow, ...]:
    parties = frozenset((*program.services, *program.externals))
    # Policies share the set of a selection, most often that of `*`, which has all names of the application.
    excluded: dict[int, tuple[str, ...]] = {}
    for policy in program.policies:
        if policy.open_sources and id(policy.sources) not in excluded:
            excluded[id(policy.sources)] = tuple(sorted(parties - policy.sources))
    return tuple(
        _policy(policy, excluded[id(policy.sources)] if policy.open_sources else ()) for policy in program.policies
    )


def _policy(policy: Policy, excluded: tuple[str, ...]) -> PolicyRow:
    kind = policy.kind
    return PolicyRow(
        policy.name,
        kind.name,
        line_of(policy.span),
        PolicyContent(
            arguments=tuple(_argument(parameter, policy.arguments[parameter.name]) for parameter in kind.parameters),
            open=policy.open_sources,
            sources=() if policy.open_sources else tuple(sorted(policy.sources)),
            excluded=excluded,
            destinations=policy.destinations,
            ports=None if policy.ports is None else tuple(sorted(policy.ports)),
            when=None if policy.match is None else match_text(policy.match),
            places=tuple(place for place in Place if place in policy.places),
            guard=kind.guard,
            state=kind.state,
            per_replica=kind.per_replica,
            both=kind.both,
            idempotent=kind.traits.idempotent,
            judges_caller_alone=kind.traits.judges_caller_alone,
            protocols=tuple(sorted(kind.protocols)),
            effects=None if policy.effects is None else tuple(_effect(effect) for effect in policy.effects),
            template_sha256=None if kind.template is None else _digest(kind.template.text.encode("utf-8")),
        ),
    )


def _ports(ports: tuple[Port, ...]) -> tuple[PortRow, ...]:
    return tuple(PortRow(port.number, port.protocol, port.target, port.name) for port in ports)


def _argument(parameter: Parameter, value: Value) -> ArgumentRow:
    digest = _digest(value.content) if isinstance(value, FileArgument) else None
    return ArgumentRow(parameter.name, _type(parameter.type), _plain(value), digest, parameter.weaker)


def _plain(value: Value) -> Plain:
    """The value as it stands in a plan. A file is represented by its path, and the row also has its digest."""
    if isinstance(value, FileArgument):
        return value.path
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value  # type: ignore[arg-type]  # no file


def _type(type_: ParameterType) -> str:
    return f"[{_type(type_.element)}]" if type_.element is not None else type_.name


def _effect(effect: Effect) -> EffectRow:
    return EffectRow(effect.verb, effect.element, None if effect.names is None else tuple(sorted(effect.names)))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
