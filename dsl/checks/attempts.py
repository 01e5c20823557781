"""Whether a timeout on a call with a retry limits all attempts together or each attempt (rule R6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsl.checks.disjoint import disjoint
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.program import Policy, Verb

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Limit(NamedTuple):
    """A timeout and a retry that apply to the same requests."""

    timeout: Policy
    retry: Policy
    together: bool
    """True: the timeout is declared before the retry, and limits all attempts together. False: it is declared after the
    retry, and limits each attempt."""


def limits(policies: Sequence[Policy]) -> tuple[Limit, ...]:
    """Every timeout with every retry on one of its calls, unless their matches exclude each other; in declared order of
    the timeouts."""
    timeouts = _with(policies, Verb.TIMES_OUT)
    retries = _with(policies, Verb.REPEATS)
    on_call: dict[int, list[int]] = {}
    for position in retries:
        for call in policies[position].calls:
            on_call.setdefault(call, []).append(position)
    if not on_call:
        return ()
    return tuple(
        Limit(policies[position], policies[other], position < other)
        for position in timeouts
        for other in sorted({retry for call in policies[position].calls for retry in on_call.get(call, ())})
        if not disjoint(policies[position].match, policies[other].match)
    )


def _with(policies: Sequence[Policy], verb: Verb) -> list[int]:
    return [
        position
        for position, policy in enumerate(policies)
        if any(effect.verb is verb for effect in policy.effects or ())
    ]


def note_limits(policies: Sequence[Policy], diagnostics: Diagnostics) -> None:
    """Notes each timeout of single attempts of a retry, if on none of its calls another timeout limits all attempts
    together. A retry with one attempt is left out."""
    declared = limits(policies)
    for limit in declared:
        if not limit.together and limit.retry.arguments.get("attempts") != 1 and not _limited(limit, declared):
            _note(limit, diagnostics)


def _limited(limit: Limit, declared: Iterable[Limit]) -> bool:
    """Whether another timeout limits all attempts of the same retry on some of the calls."""
    calls = set(limit.timeout.calls)
    return any(
        other.together and other.retry is limit.retry and not calls.isdisjoint(other.timeout.calls)
        for other in declared
    )


def _note(limit: Limit, diagnostics: Diagnostics) -> None:
    timeout, retry = limit.timeout.name, limit.retry.name
    diagnostics.note(
        "ADM423",
        f"`{timeout}` limits each attempt of `{retry}`, and no timeout limits all attempts together",
        limit.timeout.span,
        cause=f"`{timeout}` is declared after `{retry}`, so it applies to every attempt; all attempts together may "
        "take the timeout times their number, and the backoff between them",
        hint=f"declare `{timeout}` before `{retry}` if it has to limit all attempts together",
        related=(Related(limit.retry.span, f"`{retry}` is here"),),
    )
