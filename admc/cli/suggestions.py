"""Suggestions of shell completion for `admc explain`: kinds, codes, and the names of a program.

The program may be half written, huge, or hostile. So it is split into lines, but not resolved. Files, bytes and time
are limited. Only valid names of the language reach the shell, because the shell may evaluate them. A file that cannot
be read gives no suggestions, because a shell cannot show an error during completion.
"""

from __future__ import annotations

import os
import posixpath
import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

ALL_KINDS: Final = "kinds"
"""The subject of `admc explain` that lists all kinds."""
SECONDS: Final = 1.0
MAX_BYTES: Final = 4_000_000
MAX_FILES: Final = 16
MAX_ENTRIES: Final = 2000
MAX_OFFERED: Final = 500
DECLARES: Final = ("service", "policy", "kind")
_SAFE: Final = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")


def subjects(incomplete: str) -> list[str]:
    """Suggestions for the first argument of `admc explain`."""
    from dsl.vocabulary.guide import guides

    known = [ALL_KINDS, *guides()]
    if incomplete[:1].isupper():
        from admc.cli.codes import registry

        known = [*registry(), *(f"R{number}" for number in range(1, 11))]
    return _starting([*known, *_paths(incomplete)], incomplete)


def programs(incomplete: str) -> list[str]:
    """Suggestions for a program. Without suggestions bash and zsh complete file names by themselves; fish does not."""
    return _starting(_paths(incomplete), incomplete) if os.environ.get("_ADMC_COMPLETE") == "complete_fish" else []


def names(ctx: Any, incomplete: str) -> list[str]:
    """Suggestions for the second argument of `admc explain`: names from the program in the first argument."""
    subject = ctx.params.get("subject")
    include = ctx.params.get("include") or ()
    return _starting(sorted(set(_declared(Path(subject), include))), incomplete) if isinstance(subject, str) else []


def _starting(words: list[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete) and _SAFE.fullmatch(word)][:MAX_OFFERED]


def _paths(incomplete: str) -> list[str]:
    folder = incomplete[: incomplete.rfind("/") + 1]
    paths = []
    try:
        with os.scandir(folder or ".") as entries:
            for entry in islice(entries, MAX_ENTRIES):
                if entry.is_dir():
                    paths.append(f"{folder}{entry.name}/")
                elif entry.name.endswith(".adm"):
                    paths.append(f"{folder}{entry.name}")
    except (OSError, ValueError):
        return []
    return sorted(name for name in paths if not name[len(folder) :].startswith("."))


def _declared(path: Path, include: Sequence[Path]) -> Iterator[str]:
    from dsl.files.folders import folder_reader, leads_out

    read, until = folder_reader(path.parent, include), time.monotonic() + SECONDS
    waiting, seen = [path.name], {path.name}
    while waiting and len(seen) <= MAX_FILES and time.monotonic() < until:
        name = waiting.pop()
        try:
            content = read(name)
        except (OSError, ValueError):
            continue
        if len(content) > MAX_BYTES:
            continue
        text = content.decode("utf-8", "replace")
        if name.endswith(".json"):
            yield from _of_topology(text)
            continue
        for keyword, named in _lines(text, until):
            if keyword in DECLARES:
                yield from named
            elif keyword in ("use", "topology"):
                other = posixpath.normpath(posixpath.join(posixpath.dirname(name), named[0])) if named else ".."
                inside = not other.startswith("/") and (bool(include) or not leads_out(other))
                fits = inside and other.endswith(".adm" if keyword == "use" else ".json")
                if fits and other not in seen:
                    seen.add(other)
                    waiting.append(other)


def _lines(text: str, until: float) -> Iterator[tuple[str, list[str]]]:
    """The keyword of each statement, with the names or the path after it."""
    from dsl.syntax.scan import next_line
    from dsl.syntax.tokens import KEYWORDS

    position = 0
    while position < len(text) and time.monotonic() < until:
        line = next_line(text, position)
        position = line.next
        if not line.tokens:
            return
        at = next((i for i, token in enumerate(line.tokens) if token.text in KEYWORDS), None)
        if at is None:
            continue
        named = []
        for token in line.tokens[at + 1 :]:
            if token.type in ("NAME", "STRING"):
                named.append(token.text.strip('"'))
            elif token.text != ",":
                break
        yield line.tokens[at].text, named


def _of_topology(text: str) -> Iterator[str]:
    import json

    try:
        services = json.loads(text).get("services", [])
        yield from (item["name"] for item in services if isinstance(item["name"], str))
    except (ValueError, RecursionError, AttributeError, KeyError, TypeError):
        return
