"""Resolves declarations of kinds: parameters and their defaults, protocols, annotations and the template."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from dsl import units
from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.files.reading import TEMPLATE, Reader
from dsl.kinds.annotations import Annotations
from dsl.kinds.built_in import TRAITS
from dsl.kinds.directions import with_directions
from dsl.program import NO_TRAITS, Kind, Parameter, ParameterType, Protocol, Side, Stage, Template, Value
from dsl.syntax import hints, tree
from dsl.values.contents import FORMATS
from dsl.values.typed import SCALARS, Context, Invalid, convert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dsl.text import Span

_PLACE = re.compile(r"\$\{([^}\n]*)\}")


@dataclass(frozen=True, slots=True)
class ConstantDefault:
    """A default that is the same in every application."""

    value: Value


@dataclass(frozen=True, slots=True)
class SameAsParameter:
    """A default that is the value of an earlier parameter of the kind."""

    name: str


@dataclass(frozen=True, slots=True)
class ServiceDefault:
    """A default of type `service`, `caller` or a list of these. Each policy without the argument resolves and checks
    it, since only an application has the names."""

    value: tree.Value


Default = ConstantDefault | SameAsParameter | ServiceDefault


class DeclaredKind(NamedTuple):
    """A kind with the defaults of its parameters."""

    kind: Kind
    defaults: Mapping[str, Default]

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(parameter.name for parameter in self.kind.parameters)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(name for name in self.parameters if name not in self.defaults)

    @property
    def needs_argument(self) -> bool:
        return self.kind.traits.needs_argument


def resolve_kind(
    statement: tree.Kind, reader: Reader | None, diagnostics: Diagnostics, *, prelude: bool = False
) -> DeclaredKind | None:
    """The kind, or None where it has an error."""
    before = diagnostics.errors
    parameters, defaults = _parameters(statement.parameters, Context(diagnostics, reader))
    protocols = _protocols(statement.protocols, diagnostics)
    annotations = Annotations(statement, diagnostics)
    parameters = with_directions(parameters, statement, annotations.directions, diagnostics)
    template = _template(statement, parameters, reader, diagnostics)
    if not prelude:
        _check_own(statement, annotations, protocols, diagnostics)
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
        TRAITS.get(statement.name.text, NO_TRAITS) if prelude else NO_TRAITS,
        annotations.network is not None,
    )
    return DeclaredKind(kind, defaults)


def _check_own(
    statement: tree.Kind, annotations: Annotations, protocols: frozenset[Protocol], diagnostics: Diagnostics
) -> None:
    """Checks the template, the stages and the places of a user's kind. A built-in kind has no template, and may have
    any stage and `@network`."""
    name = statement.name.text
    if annotations.network is not None:
        diagnostics.error(
            "ADM313",
            f"`{name}` cannot be enforced in the network",
            annotations.network,
            cause="its template describes an Envoy filter, and in the network there is a NetworkPolicy but no Envoy",
            hint="remove it; `@ingress` and `@egress` are the places of a kind with a template",
        )
    if statement.template is None:
        diagnostics.error(
            "ADM310",
            f"`{name}` has no template",
            statement.name.span,
            cause="the template of a user's kind describes the Envoy filter that implements it",
            hint='name one after its protocols: `template "filter.yaml"`',
        )
    for side, stage in annotations.sides.items():
        if stage is Stage.FILTER:
            continue
        word = stage.name.lower()
        place = annotations.places.get(side, statement.name.span)
        if (side, stage) != (Side.EGRESS, Stage.UPSTREAM):
            diagnostics.error(
                "ADM311",
                f"`{name}` cannot work at the `{word}` stage",
                place,
                cause="a template describes a filter: of requests, or of each attempt at one (`@egress(upstream)`)",
                hint=f"write `@{side}`",
            )
        elif Protocol.TCP in protocols:
            diagnostics.error(
                "ADM311",
                f"`{name}` cannot work at the `{word}` stage of `tcp`",
                place,
                cause="this stage handles attempts of a request, and `tcp` has no requests",
                hint=f"leave `tcp` out, or write `@{side}`",
            )


def _protocols(words: Iterable[tree.Word], diagnostics: Diagnostics) -> frozenset[Protocol]:
    protocols: set[Protocol] = set()
    known = [protocol.value for protocol in Protocol]
    for word in words:
        if word.text not in known:
            hint = (
                hints.protocol(word.text)
                or diagnostics.did_you_mean(word.text, known)
                or "protocols are `tcp`, `http` and `grpc`"
            )
            diagnostics.error("ADM305", f"there is no protocol `{word.text}`", word.span, hint=hint)
        elif word.text in protocols:
            diagnostics.error("ADM305", f"protocol `{word.text}` is given twice", word.span, hint="remove one of them")
        else:
            protocols.add(Protocol(word.text))
    return frozenset(protocols)


def _type(written: tree.TypeName, diagnostics: Diagnostics, *, inside: bool = False) -> ParameterType | None:
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
    if name == "file" and written.items:
        return _file(written, diagnostics)
    if name not in SCALARS:
        hint = diagnostics.did_you_mean(name, (*SCALARS, "one_of")) or "types are " + ", ".join(
            f"`{word}`" for word in SCALARS
        )
        diagnostics.error("ADM211", f"there is no type `{name}`", written.name.span, hint=hint)
        return None
    if written.items:
        diagnostics.error("ADM211", f"`{name}` takes no words in parentheses", written.span)
        return None
    return _ranged(written, name, diagnostics)


def _file(written: tree.TypeName, diagnostics: Diagnostics) -> ParameterType | None:
    words = tuple(word.text for word in written.items)
    if len(words) == 1 and words[0] in FORMATS:
        return ParameterType("file", None, words)
    hint = diagnostics.did_you_mean(words[0], FORMATS) or "formats are " + ", ".join(f"`{word}`" for word in FORMATS)
    diagnostics.error("ADM211", f"`{written.span.text[:60]}` is not a format of a file", written.span, hint=hint)
    return None


_BOUNDS: Mapping[str, Callable[[str], float | units.BadNumber]] = {
    "int": units.integer,
    "float": units.decimal,
    "duration": units.duration,
    "size": units.size,
    "percent": units.percent,
    "string": units.integer,
}
"""Type with a range -> how its bounds are read."""
_STEPPED = ("duration", "size", "percent")


def _ranged(written: tree.TypeName, name: str, diagnostics: Diagnostics) -> ParameterType | None:
    bounds: list[float | None] = []
    for number in (written.low, written.high, written.step):
        if number is not None and name not in _BOUNDS:
            takers = ", ".join(f"`{taker}`" for taker in _BOUNDS)
            diagnostics.error("ADM211", f"`{name}` takes no range", written.span, hint=f"ranges are for {takers}")
            return None
        value = None if number is None else _BOUNDS[name](number.text)
        if isinstance(value, units.BadNumber):
            diagnostics.error(value.code, value.message, written.span, hint=value.hint)
            return None
        bounds.append(value)
    low, high, step = bounds
    problem = None
    if step is not None and name not in _STEPPED:
        problem = f"`{name}` takes no `by`", "only durations, sizes and percentages do"
    elif step is not None and step <= 0:
        problem = "this `by` is not more than zero", "write the smallest difference between two values, such as `1ms`"
    elif low is not None and high is not None and low > high:
        problem = "this range is empty", "write the smaller number first"
    if problem is not None:
        diagnostics.error("ADM211", problem[0], written.span, hint=problem[1])
        return None
    return ParameterType(name, None, (), low, high, step)


def _parameters(
    written: Iterable[tree.Parameter], context: Context
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
            defaults[name] = ConstantDefault(None)
        parameters[name] = Parameter(name, type_, item.type.optional)
    return tuple(parameters.values()), defaults


def _default(
    value: tree.Value, type_: ParameterType, earlier: Mapping[str, Parameter], context: Context
) -> Default | None:
    if isinstance(value, tree.Reference) and value.port is None:
        name = value.name.text
        other = earlier.get(name)
        if other is not None and not (type_.name == "one_of" and name in type_.items):
            if other.type == type_ and not other.optional:
                return SameAsParameter(name)
            what = "can be left out" if other.optional else "is of another type"
            context.diagnostics.error("ADM212", f"`{name}` cannot be the default here, since it {what}", value.span)
            return None
        if type_.name not in ("one_of", "bool", "service", "caller"):
            hint = (
                context.diagnostics.did_you_mean(name, earlier)
                or "a default is a literal or the name of an earlier parameter"
            )
            context.diagnostics.error("ADM212", f"there is no earlier parameter `{name}`", value.span, hint=hint)
            return None
    if type_.name in ("service", "caller") or (type_.element and type_.element.name in ("service", "caller")):
        return ServiceDefault(value)
    converted = convert(value, type_, context)
    return None if isinstance(converted, Invalid) else ConstantDefault(converted)


def _template(
    statement: tree.Kind, parameters: Iterable[Parameter], reader: Reader | None, diagnostics: Diagnostics
) -> Template | None:
    written = statement.template
    if written is None or reader is None:
        return None
    path = reader.resolve(written.value, written.span, TEMPLATE)
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
                hint=diagnostics.did_you_mean(place[1], known)
                or f"declare it: `{statement.name.text}({place[1][:40] or 'name'}: string)`",
            )
    return Template(source.path, source.text, written.span)
