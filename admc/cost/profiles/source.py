"""Finds the profile that a program or a command line names: a file, or a built-in profile.

Compile, explain and serve get the profile of a program here, so that all of them use the same figures and digest.
"""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from admc.base.exits import CommandError, Exit, wrong_usage
from admc.base.files import present, read_bounded
from admc.cost.profiles.profile import Profile
from admc.cost.profiles.read import read_profile
from dsl.diagnostics.diagnostic import Diagnostic, Diagnostics, Severity, did_you_mean
from dsl.documents.exact_json import MAX_CHARACTERS
from dsl.files.reading import decode
from dsl.program import ProfileSource, Program
from dsl.text import SourceText, Span

_FOLDER = Path(__file__).with_name("built_in")
ENDING = ".json"


class NamedProfile(NamedTuple):
    """A profile, the name by which it was given (a path, or that of a built-in one), and the digest of its JSON."""

    named: str
    profile: Profile
    sha256: str


def profile_of(program: Program, folder: str = "") -> NamedProfile | None:
    """The profile of a program; None if the program has none. Raises `CommandError` (exit 1) with the findings."""
    source = program.profile
    if source is None:
        return None
    if source.text is None:
        if source.name not in built_in_names():
            raise CommandError(Exit.INPUT, [_unknown(source)], folder)
        return built_in(source.name)
    return _read(source.name, source.text, folder)


def named_profile(named: str) -> NamedProfile:
    """A profile by the path of its file or the name of a built-in one. Raises `CommandError` (exit 1)."""
    text = _named_text(named)
    return built_in(named) if text is None else _read(named, text, "")


def named_source(named: str, span: Span) -> ProfileSource:
    """The profile in the form of a program's statement `profile`. Raises `CommandError` (exit 1)."""
    text = _named_text(named)
    if text is not None:
        _read(named, text, "")
    return ProfileSource(named, span, text)


def _named_text(named: str) -> SourceText | None:
    """The text of a file; None for a built-in profile."""
    if named in built_in_names() and not present(Path(named)):
        return None
    if not named.endswith(ENDING) and not present(Path(named)):
        raise wrong_usage(
            "ADM866",
            f"there is no built-in profile `{named[:100]}`",
            hint=_known(named, "a file has a name that ends with `.json`"),
        )
    content = read_bounded(Path(named), MAX_CHARACTERS, "the profile")
    diagnostics = Diagnostics()
    text = decode(named, content, None, diagnostics)
    if text is None:
        raise CommandError(Exit.INPUT, diagnostics.items)
    return text


def built_in_names() -> tuple[str, ...]:
    return tuple(sorted(path.name.removesuffix(ENDING) for path in _FOLDER.glob(f"*{ENDING}")))


@cache
def built_in(name: str) -> NamedProfile:
    """The built-in profile of a name."""
    text = (_FOLDER / f"{name}{ENDING}").read_text(encoding="utf-8")
    return _read(name, SourceText(f"{name}{ENDING}", text), "")


@lru_cache(maxsize=2)
def _read(named: str, text: SourceText, folder: str) -> NamedProfile:
    """Read a profile. Several stages of a compile need that of one program, so the last profiles are kept."""
    diagnostics = Diagnostics()
    profile = read_profile(text, diagnostics)
    if profile is None:
        raise CommandError(Exit.INPUT, diagnostics.items, folder)
    return NamedProfile(named, profile, hashlib.sha256(text.text.encode("utf-8")).hexdigest())


def _unknown(source: ProfileSource) -> Diagnostic:
    message = f"there is no built-in profile `{source.name}`"
    return Diagnostic(
        "ADM866",
        Severity.ERROR,
        message,
        source.span,
        hint=_known(source.name, 'a file is named in quotes: `profile "node.json"`'),
    )


def _known(named: str, file: str) -> str:
    names = built_in_names()
    listed = ", ".join(f"`{name}`" for name in names)
    return did_you_mean(named, names) or f"built-in profiles are {listed}; {file}"
