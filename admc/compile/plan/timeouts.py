"""Explains the limit of a timeout on a call with a retry: all attempts together, or each attempt."""

from __future__ import annotations

from collections.abc import Sequence

from dsl.checks.attempts import Limit, limits
from dsl.program import Policy


def limit_sentences(policies: Sequence[Policy]) -> tuple[str, ...]:
    """One sentence for each timeout that shares a call with a retry."""
    return tuple(limit_sentence(limit) for limit in limits(policies))


def limit_sentence(limit: Limit) -> str:
    timeout, retry = limit.timeout.name, limit.retry.name
    if limit.together:
        return f"`{timeout}` limits all attempts of `{retry}` together, since it is declared before it"
    return f"`{timeout}` limits each attempt of `{retry}` by itself, since it is declared after it"
