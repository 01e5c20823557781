"""What each kind of policy does to a request in a test: pass, refuse, answer, change or redirect it (docs/kinds.md).

    Policy, EvaluationContext, RequestState -> RequestState | Redirect | End

A test follows one request. Services answer it at once, and no limit is reached. A kind without a handler here is judged
by its declared effects alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from admc.review.program_tests.facts import Fact, Way, versioned
from admc.review.program_tests.request import Lines, RequestState, compare
from dsl.match import Comparison, Field, Operator
from dsl.program import Element, Policy, Program, Verb
from dsl.values.origins import admits
from dsl.values.spelling import normal_path

_BEARER: Final = "Bearer "
_ALWAYS: Final = 100


class End(NamedTuple):
    """The end of a request before a service."""

    by: tuple[str, ...]
    why: str = ""
    answered: bool = False
    """True if a policy answers the request itself; False if the request is refused."""


class Redirect(NamedTuple):
    """The request goes to another destination: `NAME` or `NAME:NUMBER`."""

    to: str
    state: RequestState


class EvaluationContext(NamedTuple):
    """The caller that meets a policy, and the assumptions of the test."""

    program: Program
    source: str
    passes: frozenset[str]
    way: Way
    unknown: bool = False
    """The caller may have an address that belongs to no party, such as the address of its node."""
    alike: tuple[str, ...] = ()
    """Externals that share a network with the caller."""


Step = RequestState | Redirect | End
Handler = Callable[[Policy, EvaluationContext, RequestState], Step]


def step(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    """The step of a request that meets a policy."""
    return HANDLERS.get(policy.kind.name, _by_effects)(policy, context, state)


def changes_nothing(policy: Policy) -> bool:
    """Whether a policy passes every request on unchanged."""
    return HANDLERS.get(policy.kind.name) is _passing


def assumable(policy: Policy) -> bool:
    """Whether a test may assume (`passes`) that the policy accepts the request.

    That is so for policies whose decision depends on more than a test can contain, such as a token.
    """
    name = policy.kind.name
    if name in HANDLERS:
        return name in ("jwt", "external_authorization") or (name == "fault_abort" and 0 < _percent(policy) < _ALWAYS)
    return _may_refuse(policy)


# ---- guards ----


def _allow(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    callers = _words(policy, "callers")
    if context.source in callers:
        what = f"whether `{context.source}` calls from an unknown address, such as its node's"
        if context.unknown and context.way.holds(Fact(policy, what, "ask for another caller")):
            return End((policy.name,), f"the address of `{context.source}` is unknown")
        return state
    same = [name for name in callers if _may_be(context, name)]
    if same:
        what = f"whether an address of `{context.source}` is also one of `{same[0]}`"
        hint = f"give both a `cidr` that does not overlap the other, or add `{context.source}` to the callers"
        if context.way.holds(Fact(policy, what, hint)):
            return state
    return End((policy.name,), f"`{context.source}` is not one of its callers")


def _may_be(context: EvaluationContext, admitted: str) -> bool:
    """Whether the caller's address may be an address of an admitted external."""
    external = context.program.externals.get(admitted)
    if external is None:
        return False
    return admitted in context.alike or (context.unknown and not external.cidrs)


def _deny(policy: Policy, _context: EvaluationContext, _state: RequestState) -> Step:
    return End((policy.name,), "it refuses every request that it meets")


def _normal_paths(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    end = End((policy.name,), "it refuses other spellings of a path")
    if state.path.open:
        of = f"whether the path, which `{policy.name}` reads, is in its normal form"
        return state if context.way.holds(Fact(policy, of, 'add `{ path "..." }` after the destination')) else end
    paths = [path.partition("?")[0] for path in state.path.values]
    return state if all(path in ("*", normal_path(path)) for path in paths) else end


def _jwt(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    lines = state.header("authorization")
    # Envoy joins the lines by commas and searches the whole text for `Bearer `.
    if not lines.open and _BEARER not in ",".join(lines.values):
        return End((policy.name,), "the request has no token")
    hint = f"say that it is good, with `passes {policy.name}`, or that there is none"
    hint += ', with `no header("authorization")`'
    return _guarded(policy, context, state, f"the token that `{policy.name}` reads", hint)


def _external_authorization(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    what = f"the answer of `{policy.arguments['service']}`, which `{policy.name}` asks"
    return _guarded(policy, context, state, what, _passes(policy))


def _guarded(policy: Policy, context: EvaluationContext, state: RequestState, what: str, hint: str) -> Step:
    if policy.name in context.passes or context.way.holds(Fact(policy, what, hint)):
        return state
    return End((policy.name,))


def _passes(policy: Policy) -> str:
    return f"say that it accepts the request, with `passes {policy.name}`"


# ---- faults, time ----


def _fault_abort(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    percent = _percent(policy)
    if percent == 0:
        return state
    if percent == _ALWAYS:
        return End((policy.name,), "it aborts every request that it meets")
    what = f"whether `{policy.name}` aborts this request, by its chance"
    return _guarded(policy, context, state, what, _passes(policy))


def _fault_delay(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    percent = _percent(policy)
    later = replace(state, now=state.now + _number(policy, "delay"))
    over = min((deadline for deadline in state.deadlines if deadline[0] < later.now), default=None)
    if percent == 0:
        return state
    if over is None:
        return state if percent < _ALWAYS else later
    what = f"whether `{policy.name}` delays this request, by its chance"
    if percent == _ALWAYS or context.way.holds(Fact(policy, what, "ask for what does not depend on it")):
        return End((over[1],), f"`{policy.name}` delays the request for longer than that")
    return state


def _timeout(policy: Policy, _context: EvaluationContext, state: RequestState) -> Step:
    deadline = (state.now + _number(policy, "after"), policy.name)
    return replace(state, deadlines=(*state.deadlines, deadline))


# ---- destinations, headers and paths ----


def _split(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    percent = _percent(policy)
    to = str(policy.arguments["to"])
    if percent == 0:
        return state
    what = f"whether `{policy.name}` sends this request to `{to}`, by its chance"
    if percent == _ALWAYS or context.way.holds(Fact(policy, what, "ask for what holds of both destinations")):
        return Redirect(to, state)
    return state


def _set_header(policy: Policy, _context: EvaluationContext, state: RequestState) -> Step:
    return state.with_header(_word(policy, "name"), Lines((_word(policy, "value"),)))


def _add_header(policy: Policy, _context: EvaluationContext, state: RequestState) -> Step:
    name = _word(policy, "name")
    lines = state.header(name)
    added = lines._replace(values=(*lines.values, _word(policy, "value")), version=lines.version + lines.open)
    return state.with_header(name, added)


def _remove_header(policy: Policy, _context: EvaluationContext, state: RequestState) -> Step:
    return state.with_header(_word(policy, "name"), Lines())


def _rewrite_path(policy: Policy, _context: EvaluationContext, state: RequestState) -> Step:
    if state.path.open:
        return replace(state, path=_changed(state.path, policy))
    prefix, to = _word(policy, "prefix"), _word(policy, "to")
    (path,) = state.path.values
    if path.startswith("/") and path.startswith(prefix):
        path = "/" + (to + path[len(prefix) :]).lstrip("/")
    return replace(state, path=Lines((path,)))


def _cors(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    """The ADM itself answers a preflight: an `OPTIONS` from a listed origin that asks for a method."""
    method = Comparison(Field("method"), Operator.EQUALS, "OPTIONS")
    origins = _words(policy, "origins")
    origin, asked = state.header("origin"), state.header("access-control-request-method")
    sent = ",".join(origin.values)
    if not origin.open and not (sent and any(admits(listed, sent) for listed in origins)):
        return state
    if not asked.open and not any(asked.values):
        return state
    if not decided(method, policy, context.way, state):
        return state
    what = f"whether `{policy.name}` answers this request as a preflight"
    hint = 'give `header("origin")` and `header("access-control-request-method")`, or say that one is absent'
    if not (origin.open or (asked.open and not asked.values)) or context.way.holds(Fact(policy, what, hint)):
        return End((policy.name,), "it answers the preflight", answered=True)
    return state


def _passing(_policy: Policy, _context: EvaluationContext, state: RequestState) -> Step:
    return state


# ---- kinds of a user's own ----


def _by_effects(policy: Policy, context: EvaluationContext, state: RequestState) -> Step:
    if _may_refuse(policy):
        step = _guarded(policy, context, state, f"whether `{policy.name}` accepts this request", _passes(policy))
        if isinstance(step, End):
            return step
    if policy.effects is None:
        changed = _changed(state.others, policy)
        return replace(
            state, path=_changed(state.path, policy), method=_changed(state.method, policy), headers={}, others=changed
        )
    for effect in policy.effects:
        if effect.verb is not Verb.WRITES:
            continue
        if effect.element is Element.PATH:
            state = replace(state, path=_changed(state.path, policy))
        elif effect.element is Element.METHOD:
            state = replace(state, method=_changed(state.method, policy))
        elif effect.element is Element.HEADER and effect.names is None:
            state = replace(state, headers={}, others=_changed(state.others, policy))
        elif effect.element is Element.HEADER:
            for name in sorted(effect.names or ()):
                state = state.with_header(name, _changed(state.header(name), policy))
    return state


def _may_refuse(policy: Policy) -> bool:
    """Whether a policy may keep a request from its destination: it rejects, it routes, or its effects are unknown."""
    return policy.effects is None or any(effect.verb in (Verb.REJECTS, Verb.ROUTES) for effect in policy.effects)


def _changed(lines: Lines, policy: Policy) -> Lines:
    return Lines((), True, lines.version + 1, policy.name)


# ---- comparisons ----


def decided(comparison: Comparison, policy: Policy, way: Way, state: RequestState) -> bool:
    """Whether a comparison holds for a request. `way` decides a comparison of an open value."""
    lines = state.lines(comparison.field)
    known = compare(comparison, lines)
    if known is not None:
        return known
    if comparison.operator is Operator.NOT_EQUALS:
        return not decided(comparison._replace(operator=Operator.EQUALS), policy, way, state)
    field = comparison.field
    of = f"header `{field.header}`" if field.header else field.name
    what, hint = f"the {of}, which `{policy.name}` reads", _what_to_add(field)
    if lines.changed_by is not None:
        what += f" and `{lines.changed_by}` may change"
        hint = f"ask for what `{lines.changed_by}` does not change"
    elif lines.values:
        hint = "give all its lines in the test"
    version = lines.version if lines.changed_by is None else f"{lines.version} {lines.changed_by}"
    return way.holds(Fact(policy, what, hint, comparison._replace(field=versioned(field, str(version)))))


def _what_to_add(field: Field) -> str:
    if field.header is None:
        return f'add `{{ {field.name} "..." }}` after the destination'
    header = f'header("{field.header}")'
    if field.header == "host":
        return f'add `{{ {header} "..." }}` after the destination'
    return f'add `{{ {header} "..." }}` after the destination, or `{{ no {header} }}` if the request does not have it'


# ---- arguments ----


def _percent(policy: Policy) -> float:
    return _number(policy, "percent")


def _number(policy: Policy, name: str) -> float:
    value = policy.arguments[name]
    assert isinstance(value, int | float)  # noqa: S101 - by the type of the parameter
    return value


def _word(policy: Policy, name: str) -> str:
    return str(policy.arguments[name])


def _words(policy: Policy, name: str) -> tuple[str, ...]:
    value = policy.arguments[name]
    assert isinstance(value, tuple)  # noqa: S101 - by the type of the parameter
    return tuple(str(word) for word in value)


HANDLERS: Final[Mapping[str, Handler]] = {
    "allow": _allow,
    "deny": _deny,
    "jwt": _jwt,
    "normal_paths": _normal_paths,
    "external_authorization": _external_authorization,
    "fault_abort": _fault_abort,
    "fault_delay": _fault_delay,
    "timeout": _timeout,
    "split": _split,
    "set_request_header": _set_header,
    "add_request_header": _add_header,
    "remove_request_header": _remove_header,
    "rewrite_path": _rewrite_path,
    "cors": _cors,
    **dict.fromkeys(
        (
            *("rate_limit", "connection_rate_limit", "circuit_breaking", "buffer_limit"),
            *("retry", "outlier_detection", "load_balancing", "mirror"),
            *("set_response_header", "add_response_header", "remove_response_header", "compression"),
            *("access_log", "request_count", "tap"),
        ),
        _passing,
    ),
}
