"""The `profile` statement: the measured costs from which `admc` estimates those of a program.

This module reads the file, so that the file is an input of the program, with its digest; a built-in profile has no
file. It checks neither the content nor the name of a built-in profile: only the `admc` package estimates costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.files.reading import PROFILE
from dsl.program import ProfileSource
from dsl.syntax import tree

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsl.files.reading import Reader


def resolve_profile(
    statements: Iterable[tree.Declared], reader: Reader, diagnostics: Diagnostics
) -> ProfileSource | None:
    """The profile of the program, or None without one or if its file cannot be read. A second `profile` is reported."""
    first: tree.Profile | None = None
    for statement in statements:
        if not isinstance(statement, tree.Profile):
            continue
        if first is None:
            first = statement
            continue
        diagnostics.error(
            "ADM116",
            "a program has one `profile`",
            statement.span,
            cause="figures of two profiles are never added",
            hint="remove one of them",
            related=(Related(first.span, "the first one is here"),),
        )
    if first is None:
        return None
    named = first.named
    if isinstance(named, tree.Word):
        return ProfileSource(named.text, named.span)
    path = reader.resolve(named.value, named.span, PROFILE)
    text = None if path is None else reader.text(path, named.span)
    return None if path is None or text is None else ProfileSource(path, named.span, text)
