"""Each word has an example, with its findings in a golden file; without a detector, some example has others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from admc.review.diff.model import Word
from admc.review.diff.protection import detection
from tests.review.diff.protection.examples import GOLDEN, Example, listing
from tests.review.diff.protection.examples_of_parties import ALL

if TYPE_CHECKING:
    from collections.abc import Iterator

    from admc.review.diff.protection.comparison import Comparison
    from admc.review.diff.protection.note import Note


def golden() -> dict[str, str]:
    """The findings of each example, by its name."""
    sections = GOLDEN.read_text(encoding="utf-8").split("## ")[1:]
    return {section.partition("\n")[0]: f"## {section}".rstrip() for section in sections}


@pytest.mark.parametrize("example", ALL, ids=lambda each: each.name)
def test_golden(example: Example) -> None:
    expected = golden()[example.name]
    assert listing(example).rstrip() == expected, "if that is meant: python -m tests.review.diff.protection.golden"


def test_the_golden_file_has_no_others() -> None:
    assert list(golden()) == [example.name for example in ALL]


def test_every_word_has_an_example() -> None:
    text = GOLDEN.read_text(encoding="utf-8")
    assert [word for word in Word if f"\n    {word} " not in text] == []


@pytest.mark.parametrize("silent", detection.DETECTORS, ids=lambda each: each.__name__)
def test_without_a_detector_an_example_differs(silent: detection.Detector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detection, "DETECTORS", tuple(each for each in detection.DETECTORS if each is not silent))
    assert _some_example_differs()


def test_without_a_look_at_gains_an_example_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_comparison: Comparison, _notes: list[Note]) -> Iterator[Note]:
        return iter(())

    monkeypatch.setattr(detection, "interference", nothing)
    assert _some_example_differs()


def _some_example_differs() -> bool:
    expected = golden()
    return any(listing(example).rstrip() != expected[example.name] for example in ALL)
