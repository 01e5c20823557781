"""Kinds: parameters, protocols and capability annotations."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from dsl import syntax, units
from dsl.diagnostics import Diagnostics, Related, did_you_mean
from dsl.files import Reader, resolve_path
from dsl.program import (
    Effect,
    Element,
    Kind,
    Parameter,
    ParameterType,
    Protocol,
    Side,
    Stage,
    Template,
    Value,
    Verb,
)
from dsl.values import SCALARS, Bad, Context, convert

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dsl.text import Span

STAGES = {stage.name.lower(): stage for stage in Stage}
ANNOTATIONS = ("ingress", "egress", "both", "guard", "state", "per_replica", "exclusive", "effect", "component")
_PLACE = re.compile(r"\$\{([^}\n]*)\}")


class Constant(NamedTuple):
    """A default that means the same everywhere."""

    value: Value


class Earlier(NamedTuple):
    """A default that is the value of an earlier parameter."""

    name: str


class Later(NamedTuple):
    """A default that names a service, and so is looked up in the application that uses the kind."""

    value: syntax.Value


Default = Constant | Earlier | Later


class Declared(NamedTuple):
    kind: Kind
    defaults: Mapping[str, Default]


def resolve_kind(
    statement: syntax.Kind, reader: Reader | None, diagnostics: Diagnostics, *, prelude: bool = False
) -> Declared | None:
    """The kind, or None where it has an error."""
    before = diagnostics.errors
    parameters, defaults = _parameters(statement.parameters, Context(diagnostics, reader))
    protocols = _protocols(statement.protocols, diagnostics)
    annotations = _Annotations(statement, diagnostics)
    template = _template(statement, parameters, reader, diagnostics)
    if diagnostics.errors > before:
        return None
    kind = Kind(
        statement.name.text,
        parameters,
        protocols,
        {side: annotations.sides[side] for side in Side if side in annotations.sides},
        statement.name.span,
        annotations.both,
        annotations.guard,
        annotations.state,
        annotations.per_replica,
        annotations.exclusive,
        annotations.effects,
        annotations.component,
        template,
        prelude,
    )
    return Declared(kind, defaults)


def _protocols(words: Iterable[syntax.Word], diagnostics: Diagnostics) -> frozenset[Protocol]:
    found: set[Protocol] = set()
    known = [protocol.value for protocol in Protocol]
    for word in words:
        if word.text not in known:
            hint = did_you_mean(word.text, known) or "protocols are `tcp`, `http` and `grpc`"
            diagnostics.error("ADM305", f"there is no protocol `{word.text}`", word.span, hint=hint)
        elif word.text in found:
            diagnostics.error("ADM305", f"protocol `{word.text}` is given twice", word.span, hint="remove one of them")
        else:
            found.add(Protocol(word.text))
    return frozenset(found)


def _type(written: syntax.TypeName, diagnostics: Diagnostics, *, inside: bool = False) -> ParameterType | None:
    name = written.name.text
    if written.element is not None:
        if inside or written.element.optional:
            what = "a list of lists" if inside else "a list of optional items"
            diagnostics.error("ADM211", f"{what} is not a type", written.span, hint="write `[T]` or `[T]?`")
            return None
        element = _type(written.element, diagnostics, inside=True)
        return None if element is None else ParameterType("list", element)
    if name == "one_of":
        words = tuple(word.text for word in written.items)
        if not words or len(set(words)) < len(words):
            what = "names no words" if not words else "names a word twice"
            diagnostics.error("ADM211", f"this `one_of` {what}", written.span, hint="write `one_of(first, second)`")
            return None
        return ParameterType("one_of", None, words)
    if name not in SCALARS:
        hint = did_you_mean(name, (*SCALARS, "one_of")) or "types are " + ", ".join(f"`{word}`" for word in SCALARS)
        diagnostics.error("ADM211", f"there is no type `{name}`", written.name.span, hint=hint)
        return None
    if written.items:
        diagnostics.error("ADM211", f"`{name}` takes no words in parentheses", written.span)
        return None
    return _ranged(written, name, diagnostics)


def _ranged(written: syntax.TypeName, name: str, diagnostics: Diagnostics) -> ParameterType | None:
    bounds: list[float | None] = []
    for number in (written.low, written.high):
        value = None if number is None else units.decimal(number.text)
        if isinstance(value, units.Wrong):
            diagnostics.error(value.code, value.message, written.span, hint=value.hint)
            return None
        bounds.append(value)
    low, high = bounds
    if (low is not None or high is not None) and name not in ("int", "float"):
        diagnostics.error("ADM211", f"`{name}` takes no range", written.span, hint="ranges are for `int` and `float`")
        return None
    if low is not None and high is not None and low > high:
        diagnostics.error("ADM211", "this range is empty", written.span, hint="write the smaller number first")
        return None
    return ParameterType(name, None, (), low, high)


def _parameters(
    written: Iterable[syntax.Parameter], context: Context
) -> tuple[tuple[Parameter, ...], dict[str, Default]]:
    parameters: dict[str, Parameter] = {}
    places: dict[str, Span] = {}
    defaults: dict[str, Default] = {}
    diagnostics = context.diagnostics
    for item in written:
        name = item.name.text
        if name in places:
            diagnostics.error(
                "ADM105",
                f"parameter `{name}` is declared twice",
                item.name.span,
                related=(Related(places[name], "first declared here"),),
            )
            continue
        places[name] = item.name.span
        type_ = _type(item.type, diagnostics)
        if type_ is None:
            continue
        if item.default is not None:
            default = _default(item.default, type_, parameters, context)
            if default is not None:
                defaults[name] = default
        elif item.type.optional:
            defaults[name] = Constant(None)
        parameters[name] = Parameter(name, type_, item.type.optional)
    return tuple(parameters.values()), defaults


def _default(
    value: syntax.Value, type_: ParameterType, earlier: Mapping[str, Parameter], context: Context
) -> Default | None:
    if isinstance(value, syntax.Reference) and value.port is None:
        name = value.name.text
        other = earlier.get(name)
        if other is not None and not (type_.name == "one_of" and name in type_.items):
            if other.type == type_ and not other.optional:
                return Earlier(name)
            what = "can be left out" if other.optional else "is of another type"
            context.diagnostics.error("ADM212", f"`{name}` cannot be the default here, since it {what}", value.span)
            return None
        if type_.name not in ("one_of", "bool", "service", "caller"):
            hint = did_you_mean(name, earlier) or "a default is a literal or the name of an earlier parameter"
            context.diagnostics.error("ADM212", f"there is no earlier parameter `{name}`", value.span, hint=hint)
            return None
    if type_.name in ("service", "caller") or (type_.element and type_.element.name in ("service", "caller")):
        return Later(value)
    converted = convert(value, type_, context)
    return None if isinstance(converted, Bad) else Constant(converted)


def _template(
    statement: syntax.Kind, parameters: Iterable[Parameter], reader: Reader | None, diagnostics: Diagnostics
) -> Template | None:
    written = statement.template
    if written is None or reader is None:
        return None
    path = resolve_path(written.value, written.span.source, written.span, diagnostics)
    source = None if path is None else reader.text(path, written.span)
    if source is None:
        return None
    known = [parameter.name for parameter in parameters]
    for place in _PLACE.finditer(source.text):
        if place[1] not in known:
            line = source.position(place.start())[0]
            diagnostics.error(
                "ADM308",
                f"`{place[0][:60]}` in `{source.path}` (line {line}) is not a parameter of `{statement.name.text}`",
                written.span,
                hint=did_you_mean(place[1], known)
                or f"declare it: `{statement.name.text}({place[1][:40] or 'name'}: string)`",
            )
    return Template(source.path, source.text, written.span)


class _Annotations:
    """Reads the annotations of one kind, and finds those that contradict each other."""

    def __init__(self, statement: syntax.Kind, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.sides: dict[Side, Stage] = {}
        self.both = self.guard = self.state = self.per_replica = self.exclusive = False
        self.effects: tuple[Effect, ...] | None = None
        self.component: str | None = None
        self.unknown = False
        seen: dict[str, syntax.Annotation] = {}
        effects: list[syntax.Annotation] = []
        for annotation in statement.annotations:
            name = annotation.name.text
            if name not in ANNOTATIONS:
                self.unknown = True
                hint = did_you_mean(name, ANNOTATIONS) or "known are " + ", ".join(
                    f"`@{known}`" for known in ANNOTATIONS
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

    def _wrong(self, annotation: syntax.Annotation, hint: str) -> None:
        self.diagnostics.error("ADM302", f"`{annotation.span.text[:60]}` does not fit", annotation.span, hint=hint)

    def _take(self, name: str, annotation: syntax.Annotation) -> None:
        words = [argument.name.text for argument in annotation.arguments]
        nested = any(argument.inner for argument in annotation.arguments)
        if name in ("ingress", "egress"):
            if nested or len(words) > 1 or (words and words[0] not in STAGES):
                close = did_you_mean(words[0], STAGES)
                self._wrong(
                    annotation, close or f"write `@{name}`, or one stage: " + ", ".join(f"`{s}`" for s in STAGES)
                )
            else:
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
        else:
            if words:
                self._wrong(annotation, f"write `@{name}` alone")
            setattr(self, name, True)

    def _effects(self, annotations: list[syntax.Annotation]) -> None:
        found: set[Effect] = set()
        none: syntax.AnnotationArgument | None = None
        count = 0
        for annotation in annotations:
            if not annotation.arguments:
                self._wrong(annotation, "write the effects in parentheses, or `@effect(none)` for a kind that has none")
            for argument in annotation.arguments:
                count += 1
                if argument.name.text == "none" and not argument.inner:
                    none = argument
                    continue
                effect = self._effect(argument)
                if effect in found:
                    self.diagnostics.error("ADM309", f"effect `{argument.span.text}` is given twice", argument.span)
                elif effect is not None:
                    found.add(effect)
        if none is not None and count > 1:
            self.diagnostics.error(
                "ADM303", "`none` contradicts the other effects", none.span, hint="remove one or the other"
            )
        self.effects = tuple(sorted(found, key=effect_order))

    def _effect(self, argument: syntax.AnnotationArgument) -> Effect | None:
        verbs = [verb.value for verb in Verb]
        elements = [element.value for element in Element]
        name = argument.name.text
        if name not in verbs:
            hint = did_you_mean(name, (*verbs, "none")) or "effects are " + ", ".join(f"`{verb}`" for verb in verbs)
            self.diagnostics.error("ADM304", f"there is no effect `{name}`", argument.name.span, hint=hint)
            return None
        verb = Verb(name)
        if verb not in (Verb.READS, Verb.WRITES):
            if argument.inner:
                self.diagnostics.error(
                    "ADM304", f"`{name}` takes nothing in parentheses", argument.span, hint=f"write `{name}`"
                )
                return None
            return Effect(verb)
        listed = ", ".join(f"`{element}`" for element in elements)
        if len(argument.inner) != 1:
            hint = f"write one of {listed} in parentheses: `{name}(header)`"
            self.diagnostics.error("ADM304", f"`{name}` needs to say what", argument.span, hint=hint)
            return None
        what = argument.inner[0]
        if what.text not in elements:
            hint = did_you_mean(what.text, elements) or f"known are {listed}"
            self.diagnostics.error("ADM304", f"nothing is called `{what.text}` in an effect", what.span, hint=hint)
            return None
        return Effect(verb, Element(what.text))

    def _contradictions(self, statement: syntax.Kind, seen: Mapping[str, syntax.Annotation]) -> None:
        name = statement.name.text
        if self.both:
            self.sides = {side: self.sides.get(side, Stage.FILTER) for side in Side}
        if not self.sides and not self.unknown and not seen.keys() & {"ingress", "egress"}:
            self.diagnostics.error(
                "ADM303",
                f"`{name}` can be enforced at no side",
                statement.name.span,
                cause="a kind can be enforced only where an annotation says so",
                hint="put `@ingress` or `@egress` (or both of them) before it, or `@both` where both ends are needed",
            )
        clashes = (
            ("per_replica", "egress", "a limit of one replica can only be kept at that replica, which is the ingress"),
            ("per_replica", "both", "a limit of one replica can only be kept at that replica, which is the ingress"),
            ("per_replica", "state", "what is kept for each replica is not kept for the destination as a whole"),
            ("both", "state", "what counts at both ends would count each request twice"),
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


_VERBS = list(Verb)
_ELEMENTS = list(Element)


def effect_order(effect: Effect) -> tuple[int, int, tuple[str, ...]]:
    """Canonical order of effects."""
    element = -1 if effect.element is None else _ELEMENTS.index(effect.element)
    return _VERBS.index(effect.verb), element, tuple(sorted(effect.names or ()))
