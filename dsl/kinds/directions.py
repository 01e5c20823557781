"""`@weaker(requests: more, per: less)`: which way a change of an argument makes a policy of the kind weaker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.program import Parameter, ParameterType, Weaker

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dsl.syntax import tree
    from dsl.text import Span

_NUMBERS: Final = ("int", "float", "duration", "size", "percent")
_OF_NUMBERS: Final = (Weaker.MORE, Weaker.LESS)
_OF_LISTS: Final = (Weaker.ADDED, Weaker.REMOVED)


def with_directions(
    parameters: Sequence[Parameter],
    statement: tree.Kind,
    written: Iterable[tree.AnnotationArgument],
    diagnostics: Diagnostics,
) -> tuple[Parameter, ...]:
    """The parameters of a kind with the directions that its `@weaker` gives them. A wrong direction is reported, and
    left out."""
    types = {parameter.name: parameter.type for parameter in parameters}
    declared = [parameter.name.text for parameter in statement.parameters]
    directions: dict[str, Weaker] = {}
    places: dict[str, Span] = {}
    for argument in written:
        name = argument.name.text
        if name not in declared:
            listed = ", ".join(f"`{known}`" for known in declared)
            hint = diagnostics.did_you_mean(name, declared) or (
                f"its parameters are {listed}" if declared else "the kind has no parameters"
            )
            message = f"`{statement.name.text}` has no parameter `{name}`"
            diagnostics.error("ADM312", message, argument.name.span, hint=hint)
        elif name in places:
            diagnostics.error(
                "ADM309",
                f"`{name}` has two directions",
                argument.span,
                hint="keep one of them",
                related=(Related(places[name], "the first one stands here"),),
            )
        else:
            places[name] = argument.span
            direction = _direction(argument, types.get(name), diagnostics)
            if direction is not None:
                directions[name] = direction
    return tuple(parameter._replace(weaker=directions.get(parameter.name)) for parameter in parameters)


def _direction(
    argument: tree.AnnotationArgument, type_: ParameterType | None, diagnostics: Diagnostics
) -> Weaker | None:
    """The direction, or None after an error. If the type of the parameter has an error, only the word is checked."""
    word, name = argument.after, argument.name.text
    if word is None:
        return None
    known = [direction.value for direction in Weaker]
    if word.text not in known:
        hint = diagnostics.did_you_mean(word.text, known) or "directions are " + ", ".join(
            f"`{direction}`" for direction in known
        )
        diagnostics.error("ADM312", f"there is no direction `{word.text}`", word.span, hint=hint)
        return None
    if type_ is None:
        return None
    fitting = _OF_LISTS if type_.name == "list" else _OF_NUMBERS if type_.name in _NUMBERS else ()
    if Weaker(word.text) in fitting:
        return Weaker(word.text)
    what = "a list" if type_.name == "list" else f"of type `{type_.name}`"
    hint = (
        " or ".join(f"`{name}: {direction}`" for direction in fitting)
        if fitting
        else "leave it out: each change of it is unclear then"
    )
    diagnostics.error("ADM312", f"`{word.text}` does not fit `{name}`, which is {what}", argument.span, hint=hint)
    return None
