"""Files beside a program: each statement of `shop.test.adm` is a test, and each one of `shop.gates.adm` is a gate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from dsl.diagnostics.diagnostic import Diagnostics, Related
from dsl.syntax import tree
from dsl.syntax.tokens import BESIDE
from dsl.text import Span

Own = TypeVar("Own", tree.Test, tree.Gate)


class Form(NamedTuple):
    """The form of a file beside a program."""

    word: str
    """The first word of its statements."""
    most: int
    misplaced: str
    """The code of the error for a statement of another form."""
    too_many: str


def program_name(beside: str) -> str:
    """`shop.adm` for `shop.test.adm` and `shop.gates.adm`."""
    ending = next((ending for ending in BESIDE.values() if beside.endswith(ending)), "")
    return beside.removesuffix(ending) + ".adm"


def statements(module: tree.Module, own: type[Own], form: Form, diagnostics: Diagnostics) -> Iterator[Own]:
    """The statements of the file's form, in the order of the file. Reports all other statements as errors, and names
    that are declared twice, whose statements it also yields. It reports the first name beyond `form.most`, and ends."""
    word, first = form.word, dict[str, Span]()
    for statement in module.statements:
        if isinstance(statement, tree.Broken):
            continue
        if not isinstance(statement, own):
            _misplaced(statement, form, diagnostics)
            continue
        name = statement.name
        if name.text in first:
            diagnostics.error(
                "ADM105",
                f"{word} `{name.text}` is declared twice",
                name.span,
                hint="rename one of them",
                related=(Related(first[name.text], "first declared here"),),
            )
        first.setdefault(name.text, name.span)
        if len(first) > form.most:
            message = f"a file has at most {form.most} {word}s"
            diagnostics.error(form.too_many, message, name.span, hint="remove some of them")
            return
        yield statement


def _misplaced(statement: tree.Statement, form: Form, diagnostics: Diagnostics) -> None:
    word, program = form.word, program_name(statement.span.source.path)
    diagnostics.error(
        form.misplaced,
        f"`{statement.span.text.split(maxsplit=1)[0][:40]}` stands in a file of {word}s",
        statement.span,
        cause=f"each statement of a file of {word}s starts with `{word}`; "
        f"all others belong to the program, `{program}`",
        hint=f"move it to `{program}`, which needs no `use` for its {word}s",
    )
