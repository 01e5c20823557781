"""What `admc explain` says of a kind of policy: how it is written, where it can be enforced, and what binds it."""

from __future__ import annotations

from admc.because import named
from admc.explanation import Explanation, Point, section
from admc.plan_build import SIDES
from dsl.program import Kind, Verb

DECLARATION_LINES = 60


def explain_kind(kind: Kind) -> Explanation:
    protocols = named(sorted(protocol.value for protocol in kind.protocols))
    where = "of this program" if not kind.prelude else "that comes with admc"
    return Explanation(
        f"kind `{kind.name}`",
        f"`{kind.name}` is a kind of policy {where}, for {protocols}",
        (*section("where it can be enforced", _sides(kind)), *section("what binds it", _binds(kind))),
        (("declared", _declaration(kind)),),
    )


def _sides(kind: Kind) -> list[Point]:
    if kind.both:
        return [Point("at both ends of each call (`@both`)")]
    return [
        Point(f"at {side.value}, at the stage `{kind.sides[side].name.lower()}`")
        for side in SIDES
        if side in kind.sides
    ]


def _binds(kind: Kind) -> list[Point]:
    said = []
    if kind.state:
        said.append("it counts all callers of a destination together, so it is at egress only for a lone sender (R5)")
    if kind.per_replica:
        said.append("it keeps state for each replica of the destination, so it stays at ingress (R5)")
    if kind.guard:
        said.append("it decides who may call, so it is at egress only where nobody can go round the senders (R7)")
    if kind.exclusive:
        said.append("at most one policy of this kind can hold for a request")
    said += _attempts(kind)
    if kind.effects is None:
        said.append("nothing is known of its effects, so it is swapped with no other policy (R6)")
    elif not kind.effects:
        said.append("it has no effect that another policy could notice, so its place in the order is free (R6)")
    else:
        said.append("its effects (`@effect`) decide what it may be swapped with (R6)")
    return [Point(text) for text in said]


def _attempts(kind: Kind) -> list[str]:
    """What the place of a policy before or after a retry means."""
    verbs = {effect.verb for effect in kind.effects or ()}
    if Verb.TIMES_OUT in verbs:
        return [
            "declared before a `retry` of the same call it limits all attempts together, declared after it each "
            "attempt by itself (R6)"
        ]
    if Verb.REPEATS in verbs:
        return [
            "a `timeout` that is declared before it limits all attempts together, one that is declared after it each "
            "attempt by itself (R6)",
            "what is declared before it meets each request once, what is declared after it meets each attempt (R6)",
        ]
    if verbs & {Verb.COUNTS, Verb.DELAYS}:
        return ["declared before a `retry` of the same call it meets each request once, after it each attempt (R6)"]
    return []


def _declaration(kind: Kind) -> str:
    """The statement with its annotations and the comments above it, as the file has them."""
    lines = kind.span.source.text.splitlines()
    first = last = kind.span.line - 1
    while first > 0 and lines[first - 1].lstrip().startswith(("@", "//")):
        first -= 1
    while "".join(lines[first : last + 1]).count("(") > "".join(lines[first : last + 1]).count(")"):
        if last + 1 >= min(len(lines), first + DECLARATION_LINES):
            break
        last += 1
    return "\n".join(lines[first : last + 1])
