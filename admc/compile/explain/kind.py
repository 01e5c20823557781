"""Explains a kind of policy: its arguments, where it can be enforced, and the rules that apply to it.

Its purpose, its examples and its names in other meshes come from `dsl/kinds.toml`, the rest from its declaration.
"""

from __future__ import annotations

from collections.abc import Iterable

from admc.base.terminal import counted
from admc.compile.explain.explanation import Explanation, Point, section
from admc.compile.plan.build import SIDES
from admc.compile.plan.reasons import quoted_list
from dsl import units
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.program import Kind, ParameterType, Verb, Weaker
from dsl.syntax import tree
from dsl.syntax.parser import parse
from dsl.values.typed import describe
from dsl.vocabulary.guide import Guide, guides

DECLARATION_LINES = 60


def explain_kinds(kinds: Iterable[Kind]) -> Explanation:
    """One line for each kind that comes with admc."""
    known = {kind.name for kind in kinds}
    shown = [guide for guide in guides().values() if guide.kind in known]
    sections = [
        part
        for group in dict.fromkeys(guide.group for guide in shown)
        for part in section(group, [Point(guide.sentence) for guide in shown if guide.group == group])
    ]
    more = section("more", [Point("`admc explain KIND` has the arguments, examples and rules of one kind")])
    return Explanation("kinds", f"{counted(len(shown), 'kind')} of policy come with admc", (*sections, *more))


def explain_kind(kind: Kind) -> Explanation:
    guide = guides().get(kind.name) if kind.prelude else None
    protocols = quoted_list(sorted(protocol.value for protocol in kind.protocols))
    answer = f"`{kind.name}` is a kind of policy of this program, for {protocols}"
    return Explanation(
        f"kind `{kind.name}`",
        answer if guide is None else f"{guide.sentence}; it is for {protocols}",
        (
            *section("its arguments", arguments(kind)),
            *section("where it can be enforced", _sides(kind)),
            *section("rules that apply to it", _rules(kind)),
            *section("in other meshes", in_other_meshes(guide)),
        ),
        (*(() if guide is None else tuple(guide.examples)), ("declared", _declaration(kind))),
    )


def arguments(kind: Kind) -> list[Point]:
    """Each parameter: its meaning, its possible values, its default, and which change of it is weaker."""
    guide = guides().get(kind.name) if kind.prelude else None
    known = {parameter.name: parameter for parameter in kind.parameters}
    points = []
    for written in _statement(kind).parameters:
        name = written.name.text
        if name not in known:
            continue
        values = _values(known[name].type, written.type)
        means = values if guide is None else f"{guide.parameters[name]} ({values})"
        points.append(Point(f"`{name}`: {means}{_default(written)}{_weaker(known[name].weaker)}"))
    return points


def in_other_meshes(guide: Guide | None) -> list[Point]:
    return [] if guide is None else [Point(f"{mesh}: {equivalent}") for mesh, equivalent in guide.equivalents]


def _values(type_: ParameterType, written: tree.TypeName) -> str:
    if type_.element is not None and written.element is not None:
        return f"a list `[...]`, each item {_values(type_.element, written.element)}"
    text = describe(type_)
    known = units.NAMES.get(type_.name, ())
    low, high = (None if number is None else number.text for number in (written.low, written.high))
    if low is not None or high is not None:
        text = text.partition(" such as ")[0]  # the example may be outside of the range
    if low is not None and high is not None:
        text += f", from {low} to {high}"
    elif low is not None or high is not None:
        text += f", at least {low}" if high is None else f", at most {high}"
    return text + (f", in {', '.join(f'`{unit}`' for unit in known)}" if len(known) > 1 else "")


def _default(written: tree.Parameter) -> str:
    if written.default is not None:
        return f"; `{written.default.span.text}` unless given"
    return "; may be left out" if written.type.optional else ""


def _weaker(direction: Weaker | None) -> str:
    if direction is None:
        return ""
    return f"; {direction} is weaker" if direction in (Weaker.MORE, Weaker.LESS) else f"; an item {direction} is weaker"


def _sides(kind: Kind) -> list[Point]:
    if kind.both:
        return [Point("at both ends of each call (`@both`)")]
    return [
        Point(f"at {side.value}, at the stage `{kind.sides[side].name.lower()}`")
        for side in SIDES
        if side in kind.sides
    ] + ([Point("in the network, in a program that says `network_policies enforced`")] if kind.network else [])


def _rules(kind: Kind) -> list[Point]:
    sentences = []
    if kind.state:
        sentences.append(
            "it counts all callers of a destination together, so it can be at egress only if there is one sender (R5)"
        )
    if kind.per_replica:
        sentences.append("it keeps state for each replica of the destination, so it stays at ingress (R5)")
    if kind.guard:
        sentences.append(
            "it decides which callers are admitted, so it can be at egress only if no caller can bypass "
            "the senders (R7)"
        )
    if kind.exclusive:
        sentences.append("at most one policy of this kind can hold for a request")
    sentences += _attempts(kind)
    if kind.effects is None:
        sentences.append("its effects are unknown, so its place in the order is fixed (R6)")
    elif not kind.effects:
        sentences.append("it has no effect on other policies, so its place in the order is free (R6)")
    else:
        sentences.append("its effects (`@effect`) decide which policies it may be swapped with (R6)")
    return [Point(text) for text in sentences]


def _attempts(kind: Kind) -> list[str]:
    """Sentences on the place of a policy before or after a retry."""
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
    source = kind.span.source
    statement = _statement(kind)
    first = min(source.position(span.start)[0] for span in (statement.span, *(a.span for a in statement.annotations)))
    last = source.position(statement.span.end)[0]
    lines = [line.rstrip("\r") for line in source.text.split("\n")]
    while first > 1 and lines[first - 2].lstrip().startswith("//"):
        first -= 1
    return "\n".join(lines[first - 1 : min(last, first - 1 + DECLARATION_LINES)])


def _statement(kind: Kind) -> tree.Kind:
    """The statement that declares a kind. Its file was already read without an error when the kind was made."""
    statements = parse(kind.span.source, Diagnostics()).statements
    return next(item for item in statements if isinstance(item, tree.Kind) and item.name.text == kind.name)
