"""A match on the host narrows and widens like one on a path, in any case."""

from __future__ import annotations

import pytest

from admc.review.diff.model import Word
from admc.review.diff.protection.matches import direction


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        ('host == "api"', 'host starts_with "api"', Word.WIDENED),
        ('host starts_with "api"', 'host == "api.example.com"', Word.NARROWED),
        ('host == "api"', 'host == "web"', Word.UNCLEAR),
        ('host == "api"', None, Word.WIDENED),
        ('host == "api"', 'host == "api" and path == "/a"', Word.NARROWED),
    ],
)
def test_a_host_is_compared(before: str, after: str | None, word: Word) -> None:
    assert direction(before, after) is word
