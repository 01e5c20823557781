"""Finds policies that have another kind, or whose kind is declared in another way (unclear).

The directions and effects of BASE's declarations count, and a changed declaration is itself a finding. So a change
cannot alter the rules by which it is judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from admc.compile.plan.model import EffectRow, PolicyContent
from admc.review.diff.model import Change, Word
from admc.review.diff.protection.arguments import comparable
from admc.review.diff.protection.comparison import Comparison, Contents
from admc.review.diff.protection.note import Note
from dsl.program import Element, Verb

_OF_MATCHES = frozenset((Element.PATH, Element.METHOD, Element.HEADER))
_PROPERTIES = ("guard", "state", "per_replica", "both", "idempotent", "judges_caller_alone")


def changed_kinds(comparison: Comparison) -> Iterator[Note]:
    for pair in comparison.pairs:
        if pair.base is None or pair.head is None:
            continue
        before, after = comparison.base.rows[pair.base].kind, comparison.head.rows[pair.head].kind
        if before != after:
            text = f"`{pair.name}` is of another kind, `{after}` instead of `{before}`"
            change = Change("kind", before, after)
            yield comparison.note(Word.UNCLEAR, pair, comparison.shared(pair), text, change)
    for contents in comparison.contents:
        yield from _declared_otherwise(comparison, contents)


def _declared_otherwise(comparison: Comparison, contents: Contents) -> Iterator[Note]:
    pair = contents.pair
    base, head = comparison.base.rows[pair.base or ""], comparison.head.rows[pair.head or ""]
    if base.kind != head.kind:
        return
    if contents.base.template_sha256 != contents.head.template_sha256:
        text = f"the template of the kind `{head.kind}` has another content"
        change = Change("template", contents.base.template_sha256, contents.head.template_sha256)
        yield comparison.note(Word.UNCLEAR, pair, comparison.shared(pair), text, change)
    # Only a program's own kind has a template.
    own = None not in (contents.base.template_sha256, contents.head.template_sha256)
    changed = list(_differences(comparison, contents, own=own))
    if changed:
        text = f"the kind `{head.kind}` is declared in another way: {', '.join(changed)}"
        yield comparison.note(Word.UNCLEAR, pair, comparison.shared(pair), text)


def _differences(comparison: Comparison, contents: Contents, *, own: bool) -> Iterator[str]:
    base, head = contents.base, contents.head
    if not comparable(comparison, contents):
        yield "parameters"
    elif own and _directions(base) != _directions(head):
        # The directions of the prelude change only with admc itself, and never with a program.
        yield "@weaker"
    if _own_effects(base, contents) != _own_effects(head, contents):
        yield "@effect"
    yield from (f"@{name}" for name in _PROPERTIES if getattr(base, name) != getattr(head, name))
    if base.protocols != head.protocols:
        yield "protocols"


def _directions(content: PolicyContent) -> dict[str, str | None]:
    return {argument.name: argument.weaker for argument in content.arguments}


def _own_effects(content: PolicyContent, contents: Contents) -> set[EffectRow] | None:
    """The declared effects, without those that follow from `when` or arguments that differ between the plans."""
    if content.effects is None:
        return None
    effects: Iterable[EffectRow] = content.effects
    if contents.base.when != contents.head.when:
        effects = (effect for effect in effects if effect.verb is not Verb.READS or effect.element not in _OF_MATCHES)
    if [row.value for row in contents.base.arguments] != [row.value for row in contents.head.arguments]:
        effects = (effect if effect.names is None else replace(effect, names=()) for effect in effects)
    return set(effects)
