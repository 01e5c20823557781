"""Finds the words of `words.toml` in everything that git tracks here.

    python -m tests.words       one line for each: file, line, the word, and what to write instead; exit code 1

Upper and lower case are one. A word also counts as a part of a name (`test_x_of_y`, `XOfY`, `x-of-y`) and of a file's
path. Several words count also where a line ends between them: in a comment, in a text of several parts, in a paragraph.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "tests" / "words.toml"

# The licence and the library of the report are not our text, and the others hold digests.
NOT_OURS = ("LICENSE", "web/cytoscape.*", "*.lock", "*.sum")

# Git takes a file with a zero byte in so many of its first bytes for binary.
BINARY = 8000

# What parts a name into words without a character between them: `theName`, `HTTPName`.
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

# Between two words of one phrase: spaces and line ends, in names `_` and `-`, in comments and quotations the sign at
# which a line begins, between two parts of one text the quotation marks, in Markdown and HTML what
# sets words apart.
GAP = r"""(?:\\[nt]|[\s_\-#/*>|"'`\[+\\\u00ad\u200b]|&nbsp;|<br */?>|\b[frb]{1,2}(?=["']))+"""


@dataclass(frozen=True)
class Finding:
    path: str
    """From the folder that was searched."""
    line: int
    """From 1; 0 for the path itself."""
    word: str
    instead: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else f"{self.path} (the file's name)"
        return f"{place}: `{self.word}`: {self.instead}"


def read_list(path: Path = LIST) -> dict[str, str]:
    """Word -> what to write instead."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["word"]
    return {word: entry["instead"] for entry in entries for word in entry["words"]}


def find(path: str, text: str, words: Mapping[str, str]) -> Iterator[Finding]:
    """In a file's path and text, in order of lines."""
    pattern = _pattern(words)
    for match in pattern.finditer(_parted(path)):
        yield Finding(path, 0, _plain(match[0]), words[_plain(match[0])])
    parted = _parted(text)
    for match in pattern.finditer(parted):
        yield Finding(path, parted.count("\n", 0, match.start()) + 1, _plain(match[0]), words[_plain(match[0])])


def search(root: Path, words: Mapping[str, str]) -> Iterator[Finding]:
    """In all files below `root` that are text and that git does not ignore: those that are new as well. Raises
    `CalledProcessError` outside of git."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True)
    for name in sorted(filter(None, listed.stdout.split("\0"))):
        path = root / name
        if path.resolve() == LIST or not path.is_file() or any(PurePosixPath(name).match(other) for other in NOT_OURS):
            continue
        content = path.read_bytes()
        if b"\0" in content[:BINARY]:
            continue
        # In another encoding the letters of the list are the same.
        yield from find(name, content.decode("utf-8", errors="replace"), words)


def _pattern(words: Mapping[str, str]) -> re.Pattern[str]:
    phrases = (GAP.join(re.escape(part) for part in word.split()) for word in words)
    return re.compile(rf"(?<![a-z])(?:{'|'.join(phrases)})(?![a-z])", re.IGNORECASE)


def _parted(text: str) -> str:
    """With the same lines."""
    return HUMP.sub("_", text)


def _plain(found: str) -> str:
    """The word as the list has it."""
    return re.sub(GAP, " ", found).lower()


def main() -> int:
    found = list(search(ROOT, read_list()))
    for finding in found:
        print(finding)
    if found:
        print(f"{len(found)} words in {len({finding.path for finding in found})} files; see CONTRIBUTING.md, `Words`")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
