"""The text of a scope with more exceptions, for hints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsl.syntax import tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_LONGEST = 200


def without(scope: tree.Scope | None, sources: Sequence[str], destinations: Sequence[str]) -> str | None:
    """`on ... -> ...` with these names added to its exceptions; None without a scope, and if that is too long for a
    hint or has a comment in it."""
    if scope is None:
        return None
    written = f"on {_except(scope.sources, sources)} -> {_except(scope.destinations, destinations)}"
    return None if len(written) > _LONGEST or "//" in written else written


def _except(selection: tree.Selection, names: Sequence[str]) -> str:
    if not names:
        return _text(selection.span.text)
    first, last = selection.terms[0].span, selection.terms[-1].span
    kept = _text(first.source.text[first.start : last.end])
    left = list(dict.fromkeys((*_terms(selection.without), *names)))
    return f"{kept} except {left[0] if len(left) == 1 else '{' + ', '.join(left) + '}'}"


def _terms(terms: Sequence[tree.Term]) -> Iterator[str]:
    for term in terms:
        if isinstance(term.atom, tree.SetAtom):
            yield from _terms(term.atom.terms)
        else:
            yield _text(term.span.text)


def _text(text: str) -> str:
    return " ".join(text.split())
