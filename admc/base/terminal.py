"""Text for terminals: its colour, its width, and the escape of characters that could control the terminal.

A program may be hostile: a name in an error message could contain escape sequences, line breaks or characters that
reverse the reading direction. So text of users passes `visible` before it is printed.
"""

from __future__ import annotations

import os
import shlex
import shutil
import unicodedata
from typing import TextIO


def visible(text: str) -> str:
    """`text` with everything that does not print (controls, direction marks, lone surrogates) written as an escape.

    >>> visible("a" + chr(27) + "[2J")
    'a\\\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _escaped(character: str) -> str:
    code = ord(character)
    if character == "\n":
        return "\\n"
    if character == "\t":
        return "\\t"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def quoted(argument: object) -> str:
    """Quote an argument or a path for a shell, and escape characters that do not print.

    >>> quoted("my app/p.adm"), quoted("p.adm")
    ("'my app/p.adm'", 'p.adm')
    """
    return visible(shlex.quote(str(argument)))


def command(*words: object) -> str:
    """A command line of admc that the reader may copy.

    >>> command("check", "my app/p.adm")
    "admc check 'my app/p.adm'"
    """
    return " ".join(("admc", *map(quoted, words)))


def cells(text: str) -> int:
    """Count the columns of printable text on a terminal. A wide character has two, a combining character none."""
    if text.isascii():
        return len(text)
    return sum(_cell(character) for character in text)


def _cell(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def takes_colour(stream: TextIO) -> bool:
    """Whether the stream is a terminal that is not dumb, and NO_COLOR is not set."""
    return not os.environ.get("NO_COLOR") and not is_dumb() and is_terminal(stream)


def is_dumb() -> bool:
    """Whether the terminal shows control sequences instead of interpreting them."""
    return os.environ.get("TERM") == "dumb"


def is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:
        return False  # a closed stream


def width(stream: TextIO) -> int:
    """Return the number of columns to fill: that of the terminal, from 40 to 140, or 100 for a file or a pipe."""
    if not is_terminal(stream):
        return 100
    return max(40, min(shutil.get_terminal_size().columns, 140))


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 file`, `2 files`. `many` is an irregular plural."""
    return f"{number} {one if number == 1 else many or one + 's'}"
