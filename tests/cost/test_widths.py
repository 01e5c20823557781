"""`admc overhead` fills the columns of its terminal, and no more: each of its tables and sentences."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from admc.base.columns import fitted, table
from admc.base.terminal import cells
from tests.cli.command import ROOT

WIDTHS = (40, 60, 80, 100, 200)


@pytest.fixture
def hotel(tmp_path: Path) -> Path:
    folder = tmp_path / "hotel"
    shutil.copytree(ROOT / "examples" / "hotel_reservation", folder)
    path = folder / "policies.adm"
    path.write_text(path.read_text() + "\nprofile meshinsight\n")
    return path


def shown(columns: int, *arguments: str | Path, **more: str) -> list[str]:
    """What the command prints on a terminal with so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")} | more
    process = subprocess.Popen(
        [sys.executable, "-m", "admc", *map(str, arguments)], stdout=slave, stderr=subprocess.DEVNULL, env=environment
    )
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError as error:
            assert error.errno == errno.EIO  # noqa: PT017 - Linux says so where the other end is closed
            break
        if not part:
            break
        said += part
    os.close(master)
    assert process.wait(60) == 0, said.decode()
    return said.decode().replace("\r", "").splitlines()


def too_wide(lines: list[str], columns: int) -> list[str]:
    """Lines that could be shorter: a word is never cut."""
    return [line for line in lines if cells(line) > columns and len(line.split()) > 1]


@pytest.mark.long
@pytest.mark.parametrize("columns", WIDTHS)
def test_every_table_fits_the_terminal(columns: int, hotel: Path) -> None:
    lines = shown(columns, "overhead", hotel)
    assert not too_wide(lines, columns)
    assert any("full mesh, everywhere" in line for line in lines)
    words = " ".join(" ".join(lines).split())
    for figure in (
        "egress/mongodb-reservation:27017 (tcp)",
        "find_hotels",
        ">= 955.7",
        "the profile lacks figures of memory",
    ):
        assert figure in words
    compared = shown(columns, "overhead", hotel, "--traffic", "x2", "--replan")
    assert not too_wide(compared, columns)
    assert "difference" in " ".join(compared)
    assert "solved again" in " ".join(" ".join(compared).split())


@pytest.mark.long
def test_columns_of_the_environment_count_on_a_terminal(hotel: Path) -> None:
    assert max(map(cells, shown(200, "overhead", hotel))) > 100
    assert not too_wide(shown(200, "overhead", hotel, COLUMNS="60"), 60)


def test_a_file_keeps_its_lines(hotel: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "admc", "overhead", str(hotel)], capture_output=True, text=True, check=True
    )
    assert max(map(cells, run.stdout.splitlines())) > 140


ROWS = [("name", "cores", "", "share"), ("a-service-with-a-long-name", "0.25", "->", "50%"), ("b", "-", "", ""), ("",)]


def test_a_table_that_does_not_fit_has_its_rows_below_each_other() -> None:
    assert table(ROWS, width=100) == table(ROWS)
    assert table(ROWS, width=30) == [
        "name",
        "a-service-with-a-long-name",
        "    cores 0.25  ->  share 50%",
        "b",
        "    cores -",
        "",
    ]
    assert all(cells(line) <= 26 for line in table(ROWS, width=24))


def test_a_sentence_goes_on_in_the_next_line_and_keeps_its_indent() -> None:
    assert list(fitted(["  one two three four"], 12)) == ["  one two", "    three", "    four"]
    assert list(fitted(["a-path/that/is/longer/than/the/line"], 12)) == ["a-path/that/is/longer/than/the/line"]
