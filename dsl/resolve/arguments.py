"""Arguments of policies: assigned to the parameters of their kinds by position or name, with defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Related
from dsl.kinds.kinds import ConstantDefault, DeclaredKind, SameAsParameter, ServiceDefault
from dsl.syntax import tree
from dsl.syntax.hints import thousands
from dsl.values.formats import format_errors
from dsl.values.headers import unwritable, written
from dsl.values.typed import Context, Invalid, convert, describe
from dsl.vocabulary import other_meshes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dsl.diagnostics.diagnostic import Diagnostics
    from dsl.program import Kind, Value
    from dsl.text import Span


class Arguments:
    """Resolves the arguments of policies."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.diagnostics = context.diagnostics

    def resolve(self, statement: tree.Policy, declared: DeclaredKind) -> Mapping[str, Value] | None:
        """Every parameter with its value, or None if a value is missing or invalid. Names that are unknown or given
        twice, and texts of a wrong format, are only reported."""
        kind = declared.kind
        error = self.diagnostics.error
        names = [parameter.name for parameter in kind.parameters]
        signature = f"{kind.name}({', '.join(names)})"
        given: dict[str, tree.Argument] = {}
        named = None
        unknown = False
        for index, argument in enumerate(statement.arguments):
            if argument.name is None:
                span = argument.span
                hint = thousands(span.source.text, span.start, span.end) or f"the parameters are `{signature}`"
                if named is not None:
                    error(
                        "ADM207",
                        f"`{argument.span.text[:60]}` needs a name, since it follows a named argument",
                        argument.span,
                        hint=hint,
                    )
                    return None
                if index >= len(names):
                    error("ADM207", f"`{kind.name}` takes {_count(len(names))}", argument.span, hint=hint)
                    return None
                given[names[index]] = argument
                continue
            named = name = argument.name.text
            if name not in names:
                unknown = True
                meant = other_meshes.parameter(kind.name, name, names) if kind.prelude else None
                hint = meant or self.diagnostics.did_you_mean(name, names) or f"the parameters are `{signature}`"
                error("ADM205", f"`{kind.name}` has no parameter `{name}`", argument.name.span, hint=hint)
            elif name in given:
                error(
                    "ADM206",
                    f"argument `{name}` is given twice",
                    argument.span,
                    hint="keep one of them",
                    related=(Related(given[name].span, "first given here"),),
                )
            else:
                given[name] = argument
        return self._values(statement, declared, given, unknown=unknown)

    def _values(
        self, statement: tree.Policy, declared: DeclaredKind, given: Mapping[str, tree.Argument], *, unknown: bool
    ) -> Mapping[str, Value] | None:
        values: dict[str, Value] = {}
        missing: list[str] = []
        bad: set[str] = set()
        for parameter in declared.kind.parameters:
            name = parameter.name
            argument = given.get(name)
            default = declared.defaults.get(name)
            value: Value | Invalid
            if argument is not None:
                value = convert(argument.value, parameter.type, self.context)
            elif isinstance(default, ConstantDefault):
                value = default.value
            elif isinstance(default, SameAsParameter):
                if default.name in bad or default.name in missing:
                    bad.add(name)
                    continue
                value = values[default.name]
            elif isinstance(default, ServiceDefault):
                value = convert(default.value, parameter.type, self.context)
            else:
                missing.append(name)
                continue
            if isinstance(value, Invalid):
                bad.add(name)
            else:
                values[name] = value
        # A misspelt argument is also missing, but that is one error.
        if missing and not unknown:
            types = {parameter.name: parameter.type for parameter in declared.kind.parameters}
            listed = " and ".join(f"`{name}`" for name in missing)
            self.diagnostics.error(
                "ADM204",
                f"`{declared.kind.name}` needs {listed}",
                statement.kind.span,
                hint="; ".join(f"`{name}` is {describe(types[name])}" for name in missing),
                related=tuple(Related(span, "the kind is declared here") for span in declared.kind.declaration),
            )
        if not missing and not bad and not unknown:
            self._check_headers(statement, given, declared.kind, values)
        return None if missing or bad else values

    def _check_headers(
        self, statement: tree.Policy, given: Mapping[str, tree.Argument], kind: Kind, values: Mapping[str, Value]
    ) -> None:
        """Refuses headers that frame a message or that proxies write, and values that break the kind's formats.

        This also applies to defaults.
        """
        for name in header_parameters(kind):
            span = given[name].span if name in given else statement.kind.span
            report_unwritable(kind, header_names(values[name]), span, self.diagnostics)
        for wrong in format_errors(kind, values):
            span = given[wrong.parameter].span if wrong.parameter in given else statement.kind.span
            self.diagnostics.error(wrong.code, wrong.message, span, cause=wrong.cause, hint=wrong.hint)


def report_unwritable(
    kind: Kind, names: Iterable[str], span: Span, diagnostics: Diagnostics, *, grpc: bool = False
) -> None:
    """An error for each of the headers that a policy of a kind cannot write. `grpc`: on calls of gRPC."""
    for header in names:
        why = unwritable(header, written(kind), grpc=grpc)
        if why is not None:
            text = f"`{kind.name}` cannot write `{header}`"
            diagnostics.error(why.code, text, span, cause=why.cause, hint=why.hint)


def header_names(value: Value) -> tuple[str, ...]:
    """The headers that an argument names: one, several, or none."""
    return tuple(str(item) for item in (value if isinstance(value, tuple) else (value,)) if item is not None)


def header_parameters(kind: Kind) -> Iterator[str]:
    """Names of the parameters that take headers, one or a list of them."""
    for parameter in kind.parameters:
        element = parameter.type.element
        if parameter.type.name == "header" or (element is not None and element.name == "header"):
            yield parameter.name


def _count(number: int) -> str:
    return "no arguments" if number == 0 else "one argument" if number == 1 else f"{number} arguments"
