"""Reads a profile from its JSON form.

    SourceText -> [Profile], or diagnostics

No mistake is corrected and nothing is left out: a profile with one mistake is refused, because its figures decide
plans. Only the order of entries and the form of arguments become canonical.
"""

from __future__ import annotations

from typing import Final

from admc.cost.profiles.contents_check import checked
from admc.cost.profiles.profile import Profile
from dsl.diagnostics.diagnostic import Diagnostics
from dsl.documents import DocumentError, Fault, VersionError, Violation, read_exact
from dsl.text import SourceText, Span

_CODES: Final = {
    Fault.SYNTAX: "ADM860",
    Fault.ABSENT: "ADM861",
    Fault.SHAPE: "ADM861",
    Fault.NUMBER: "ADM862",
    Fault.NAME: "ADM864",
}
_HINTS: Final = {
    "ADM860": "a profile is a JSON document; see `docs/profiles.md`",
    "ADM863": "convert the figures; `admc profile fit` writes profiles in these units",
    "ADM865": "use the newer admc that wrote it",
}


def read_profile(source: SourceText, diagnostics: Diagnostics) -> Profile | None:
    """The profile in the text of a file; None after errors."""
    try:
        profile = read_exact(Profile, source.text)
    except DocumentError as error:
        newer = isinstance(error, VersionError) and error.newer
        for violation in error.violations:
            code = "ADM865" if newer else _code(violation)
            refused = f"`{source.path}` is not a profile: " if code == "ADM860" else ""
            hint = _HINTS.get(code) or violation.hint
            if violation.fault is Fault.ABSENT:
                hint = "write `null` where the source has no such figure"
            diagnostics.error(code, f"{refused}{violation}", Span(source, *violation.range), hint=hint)
        return None
    return checked(profile, source, diagnostics)


def _code(violation: Violation) -> str:
    if violation.path[:1] == ("units",) and len(violation.path) > 1:
        return "ADM863"
    return _CODES[violation.fault]
