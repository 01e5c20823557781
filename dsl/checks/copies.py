"""Checks across policies: the targets of copies and routes, and shares of too few replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.program import Policy, Verb, callee
from dsl.resolve.entities import Application
from dsl.resolve.narrowing import without

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
    """The target of a copy or a route has to be a declared call of each sender in scope, and is none of them."""
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
            mended = without(scope, () if own is None else (target,), (target,))
            diagnostics.error(
                "ADM416",
                f"`{target}` is the target of `{policy.name}` and in its scope as well",
                policy.span,
                cause="requests would be sent on to where they go already",
                hint=f"leave it out: `{mended or f'except {target}'}`",
                related=(Related(call.span, "the call is declared here"),),
            )
            return
        if call.source in application.externals:
            # Rule R3 keeps this policy away from the call; the solver says so.
            continue
        if call.port.protocol not in to_target.get(call.source, ()):
            missing.setdefault(call.source, index)
    if own is not None and target in application.services:
        mended = without(scope, (target,), ())
        diagnostics.error(
            "ADM421",
            f"`{policy.name}` sends requests of `{target}` to `{target}` itself",
            policy.span,
            cause=f"the calls of `{target}` are in the scope: what it calls because of a request comes back to it as "
            "another request, and so on without end",
            hint=f"leave its calls out: `{mended or f'except {target}'}`",
            related=(Related(own.span, f"`{target}` makes this call"),),
        )
        return
    if not missing or not application.all_calls:
        return
    source, index = min(missing.items())
    protocol = calls[index].port.protocol
    known = to_target.get(source)
    more = "" if len(missing) == 1 else f" (and {len(missing) - 1} more senders)"
    if known:
        spoken = " and ".join(f"`{name}`" for name in sorted(known))
        message = (
            f"`{source}` speaks {spoken} to `{target}`, but the requests of `{policy.name}` are `{protocol}`{more}"
        )
        hint = f"give `{target}` a port for `{protocol}` and declare the call to it"
    else:
        message = f"`{policy.name}` sends requests of `{source}` to `{target}`, a call that is not declared{more}"
        hint = f"declare it: `call {source} -> {target}`"
    diagnostics.error(
        "ADM403",
        message,
        policy.span,
        cause="the target of a mirror or a split is called by the sender, and other policies may hold for that call",
        hint=hint,
        related=(Related(calls[index].span, "the call in scope is declared here"),),
    )


def warn_of_shares(application: Application, policies: Iterable[Policy], diagnostics: Diagnostics) -> None:
    """Warns where the share of replicas that may be ejected allows none: 0%, or less than all of a single replica."""
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
