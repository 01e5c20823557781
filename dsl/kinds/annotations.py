"""Reads the annotations of a kind. Reports those that are unknown, repeated or malformed, or contradict each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.program import Effect, Element, Side, Stage, Verb
from dsl.syntax import tree
from dsl.vocabulary import other_meshes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsl.text import Span

STAGES = {stage.name.lower(): stage for stage in Stage}
ANNOTATIONS = (
    "ingress",
    "egress",
    "both",
    "guard",
    "state",
    "per_replica",
    "exclusive",
    "effect",
    "component",
    "weaker",
)
"""The annotations that users may write."""
NETWORK = "network"
"""The annotation of the prelude alone."""
_VERBS = list(Verb)
_ELEMENTS = list(Element)


class Annotations:
    """The annotations of one kind. `@network` is read for every kind: `kinds` refuses it for a user's own."""

    def __init__(self, statement: tree.Kind, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.sides: dict[Side, Stage] = {}
        self.places: dict[Side, Span] = {}
        self.both = self.guard = self.state = self.per_replica = self.exclusive = False
        self.network: Span | None = None
        self.effects: tuple[Effect, ...] | None = None
        self.component: str | None = None
        self.directions: tuple[tree.AnnotationArgument, ...] = ()
        """The arguments of `@weaker`: each has the name of a parameter, and a word after `:`."""
        self.unknown = False
        seen: dict[str, tree.Annotation] = {}
        effects: list[tree.Annotation] = []
        for annotation in statement.annotations:
            name = annotation.name.text
            if name not in (*ANNOTATIONS, NETWORK):
                self.unknown = True
                hint = (
                    other_meshes.side(name, "@")
                    or diagnostics.did_you_mean(name, ANNOTATIONS, "@")
                    or "known are " + ", ".join(f"`@{known}`" for known in ANNOTATIONS)
                )
                diagnostics.error("ADM301", f"there is no annotation `@{name}`", annotation.span, hint=hint)
            elif name == "effect":
                effects.append(annotation)
            elif name in seen:
                diagnostics.error(
                    "ADM309",
                    f"`@{name}` is given twice",
                    annotation.span,
                    hint="keep one of them",
                    related=(Related(seen[name].span, "first given here"),),
                )
            else:
                seen[name] = annotation
                self._take(name, annotation)
        if effects:
            self._effects(effects)
        self._contradictions(statement, seen)

    def _wrong(self, annotation: tree.Annotation, hint: str) -> None:
        self.diagnostics.error(
            "ADM302", f"`{annotation.span.text[:60]}` is not a valid annotation", annotation.span, hint=hint
        )

    def _take(self, name: str, annotation: tree.Annotation) -> None:
        words = [argument.name.text for argument in annotation.arguments]
        nested = any(argument.inner or argument.after for argument in annotation.arguments)
        if name in ("ingress", "egress"):
            if nested or len(words) > 1 or (words and words[0] not in STAGES):
                close = self.diagnostics.did_you_mean(words[0], STAGES)
                self._wrong(
                    annotation, close or f"write `@{name}`, or one stage: " + ", ".join(f"`{s}`" for s in STAGES)
                )
            else:
                self.places[Side(name)] = annotation.span
                self.sides[Side(name)] = STAGES[words[0]] if words else Stage.FILTER
        elif name == "state":
            if nested or words != ["destination"]:
                self._wrong(annotation, "write `@state(destination)`")
            self.state = True
        elif name == "component":
            if nested or len(words) != 1:
                self._wrong(annotation, "write `@component(NAME)` with one name")
            else:
                self.component = words[0]
        elif name == NETWORK:
            if words:
                self._wrong(annotation, "write `@network` alone")
            self.network = annotation.span
        elif name == "weaker":
            if not words or not all(argument.after for argument in annotation.arguments):
                self._wrong(annotation, "write parameters with a direction: `@weaker(requests: more, per: less)`")
            else:
                self.directions = annotation.arguments
        else:
            if words:
                self._wrong(annotation, f"write `@{name}` alone")
            setattr(self, name, True)

    def _effects(self, annotations: list[tree.Annotation]) -> None:
        effects: set[Effect] = set()
        none: tree.AnnotationArgument | None = None
        count = 0
        for annotation in annotations:
            if not annotation.arguments:
                self._wrong(annotation, "write the effects in parentheses, or `@effect(none)` for a kind that has none")
            for argument in annotation.arguments:
                count += 1
                if argument.name.text == "none" and not argument.inner and not argument.after:
                    none = argument
                    continue
                effect = self._effect(argument)
                if effect in effects:
                    self.diagnostics.error("ADM309", f"effect `{argument.span.text}` is given twice", argument.span)
                elif effect is not None:
                    effects.add(effect)
        if none is not None and count > 1:
            self.diagnostics.error(
                "ADM303", "`none` contradicts the other effects", none.span, hint="remove one or the other"
            )
        self.effects = tuple(sorted(effects, key=effect_order))

    def _effect(self, argument: tree.AnnotationArgument) -> Effect | None:
        verbs = [verb.value for verb in Verb]
        elements = [element.value for element in Element]
        name = argument.name.text
        if name not in verbs:
            hint = self.diagnostics.did_you_mean(name, (*verbs, "none")) or "effects are " + ", ".join(
                f"`{verb}`" for verb in verbs
            )
            self.diagnostics.error("ADM304", f"there is no effect `{name}`", argument.name.span, hint=hint)
            return None
        verb = Verb(name)
        if verb not in (Verb.READS, Verb.WRITES):
            if argument.inner or argument.after:
                self.diagnostics.error(
                    "ADM304", f"`{name}` takes nothing in parentheses", argument.span, hint=f"write `{name}`"
                )
                return None
            return Effect(verb)
        listed = ", ".join(f"`{element}`" for element in elements)
        if len(argument.inner) != 1:
            hint = f"write one of {listed} in parentheses: `{name}(header)`"
            self.diagnostics.error("ADM304", f"`{name}` does not say what it {name}", argument.span, hint=hint)
            return None
        what = argument.inner[0]
        if what.text not in elements:
            hint = self.diagnostics.did_you_mean(what.text, elements) or f"known are {listed}"
            self.diagnostics.error("ADM304", f"an effect cannot name `{what.text}`", what.span, hint=hint)
            return None
        return Effect(verb, Element(what.text))

    def _contradictions(self, statement: tree.Kind, seen: Mapping[str, tree.Annotation]) -> None:
        name = statement.name.text
        if self.both:
            self.sides = {side: self.sides.get(side, Stage.FILTER) for side in Side}
        if not self.sides and not self.unknown and not seen.keys() & {"ingress", "egress", NETWORK}:
            self.diagnostics.error(
                "ADM303",
                f"`{name}` has no side at which it can be enforced",
                statement.name.span,
                cause="a kind can be enforced only at the sides of its annotations",
                hint="put `@ingress` or `@egress` (or both of them) before it, or `@both` where both ends are needed",
            )
        clashes = (
            ("per_replica", "egress", "only the ingress of a replica can enforce a limit of that replica"),
            ("per_replica", "both", "only the ingress of a replica can enforce a limit of that replica"),
            ("per_replica", "state", "a limit of each replica is not a state of the destination as a whole"),
            ("both", "state", "a kind that counts at both ends would count each request twice"),
        )
        for one, other, why in clashes:
            if one in seen and other in seen:
                self.diagnostics.error(
                    "ADM303",
                    f"`@{one}` contradicts `@{other}`",
                    seen[one].span,
                    cause=why,
                    hint="remove one of them",
                    related=(Related(seen[other].span, f"`@{other}` stands here"),),
                )


def effect_order(effect: Effect) -> tuple[int, int, tuple[str, ...]]:
    """Canonical order of effects."""
    element = -1 if effect.element is None else _ELEMENTS.index(effect.element)
    return _VERBS.index(effect.verb), element, tuple(sorted(effect.names or ()))
