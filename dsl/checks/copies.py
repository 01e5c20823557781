"""Checks of the targets of mirrors and splits, and of shares of replicas that are too small."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.checks.narrowing import without
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.graph.application import Application
from dsl.program import Policy, Verb, callee

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dsl.program import Value
    from dsl.syntax import tree


def check_targets(
    application: Application,
    policies: Iterable[Policy],
    scopes: Mapping[str, tree.Scope],
    diagnostics: Diagnostics,
) -> None:
    """Reports targets in their own scope, targets whose own calls are in the scope, and else services in scope that
    have no declared call, of the same protocol, to the target."""
    for policy in policies:
        verbs = {effect.verb for effect in policy.effects or ()}
        if verbs & {Verb.COPIES, Verb.ROUTES}:
            for parameter in policy.kind.parameters:
                value = policy.arguments[parameter.name]
                if parameter.type.name == "service" and value is not None:
                    _check_target(application, policy, value, scopes.get(policy.name), diagnostics)


def _check_target(
    application: Application, policy: Policy, value: Value, scope: tree.Scope | None, diagnostics: Diagnostics
) -> None:
    target, number = callee(value)
    calls = application.calls
    own = next((calls[index] for index in policy.calls if calls[index].source == target), None)
    to_target: dict[str, set[str]] = {}
    for index in application.calls_to.get(target, ()):
        call = calls[index]
        if number in (None, call.port.number):
            to_target.setdefault(call.source, set()).add(call.port.protocol)
    missing: dict[str, int] = {}
    for index in policy.calls:
        call = calls[index]
        if call.destination == target and number in (None, call.port.number):
            fixed_scope = without(scope, () if own is None else (target,), (target,))
            diagnostics.error(
                "ADM416",
                f"`{target}` is the target of `{policy.name}` and in its scope as well",
                policy.span,
                cause="requests would be sent to the service that already receives them",
                hint=f"leave it out: `{fixed_scope or f'except {target}'}`",
                related=(Related(call.span, "the call is declared here"),),
            )
            return
        if call.source in application.externals:
            # Rule R3 keeps this policy away from the call; the solver reports it.
            continue
        if call.port.protocol not in to_target.get(call.source, ()):
            missing.setdefault(call.source, index)
    if own is not None and target in application.services:
        fixed_scope = without(scope, (target,), ())
        diagnostics.error(
            "ADM421",
            f"`{policy.name}` sends requests of `{target}` to `{target}` itself",
            policy.span,
            cause=f"the calls of `{target}` are in the scope: each call that it makes for a request causes another "
            "request to it, without end",
            hint=f"leave its calls out: `{fixed_scope or f'except {target}'}`",
            related=(Related(own.span, f"`{target}` makes this call"),),
        )
        return
    if missing and application.all_calls:
        _report_missing_calls(application, policy, target, missing, to_target, diagnostics)


def _report_missing_calls(
    application: Application,
    policy: Policy,
    target: str,
    missing: Mapping[str, int],
    to_target: Mapping[str, set[str]],
    diagnostics: Diagnostics,
) -> None:
    """`missing`: sender -> a call in scope, for senders without a call to the target with the protocol of that call."""
    source, index = min(missing.items())
    protocol = application.calls[index].port.protocol
    known = to_target.get(source)
    more = "" if len(missing) == 1 else f" (and {len(missing) - 1} more senders)"
    if known:
        protocols = " and ".join(f"`{name}`" for name in sorted(known))
        message = (
            f"`{source}` speaks {protocols} to `{target}`, but the requests of `{policy.name}` are `{protocol}`{more}"
        )
        hint = f"give `{target}` a port for `{protocol}` and declare the call to it"
    else:
        message = f"`{policy.name}` sends requests of `{source}` to `{target}`, a call that is not declared{more}"
        hint = f"declare it: `call {source} -> {target}`"
    diagnostics.error(
        "ADM403",
        message,
        policy.span,
        cause="the sender calls the target of a mirror or a split, and other policies may apply to that call",
        hint=hint,
        related=(Related(application.calls[index].span, "the call in scope is declared here"),),
    )


def warn_of_shares(application: Application, policies: Iterable[Policy], diagnostics: Diagnostics) -> None:
    """Warns of shares of replicas that allow no ejection: 0%, or less than 100% of a single replica."""
    for policy in policies:
        parameter = policy.kind.traits.ejected_share
        share = None if parameter is None else policy.arguments[parameter]
        if not isinstance(share, int | float) or share >= 100:
            continue
        callees = sorted({application.calls[index].destination for index in policy.calls})
        services = [name for name in callees if name in application.services]
        single = services if share == 0 else [name for name in services if application.services[name].replicas == 1]
        if not single:
            continue
        more = "" if len(single) == 1 else f" (and {len(single) - 1} more)"
        if share == 0:
            cause = f"`{parameter}` is 0%, so no replica may be ejected"
            hint = "write a share above 0%, or remove the policy"
        else:
            cause = f"`{single[0]}` has one replica, and `{parameter}: {share:g}%` never ejects the last one"
            hint = f"declare its number of replicas (`replicas 3`), or write `{parameter}: 100%` to eject a single one"
        diagnostics.warning(
            "ADM418",
            f"`{policy.name}` never ejects a replica of `{single[0]}`{more}",
            policy.span,
            cause=cause,
            hint=hint,
            related=(Related(application.services[single[0]].span, f"`{single[0]}` is declared here"),),
        )
