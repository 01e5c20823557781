"""Suggestions of shells: names of a program that may be hostile, and nothing that a shell could evaluate."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from admc.cli import suggestions
from admc.cli.codes import registry
from dsl.kinds.prelude import kinds
from dsl.vocabulary.guide import guides
from tests.cli.programs import SHOP, write

ROOT = Path(__file__).parents[2]


def offered(path: Path, incomplete: str = "") -> list[str]:
    return suggestions.names(SimpleNamespace(params={"subject": str(path)}), incomplete)


def bash(folder: Path, *words: str) -> list[str]:
    """The suggestions of bash for the last word."""
    done = subprocess.run(
        [sys.executable, "-m", "admc"],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_ADMC_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stderr == b""
    return done.stdout.decode().splitlines()


def test_the_shell_is_given_names_of_the_program(tmp_path: Path) -> None:
    write(tmp_path, SHOP)
    assert bash(tmp_path, "admc", "explain", "policies.adm", "f") == ["flaky_geo", "frontend"]
    assert "policies.adm" in bash(tmp_path, "admc", "explain", "")
    assert bash(tmp_path, "admc", "explain", "out") == ["outlier_detection"]


def test_names_of_every_file_of_the_program(tmp_path: Path) -> None:
    text = 'app a\nuse "more/kinds.adm"\ntopology "g.json"\nservice web, api { http 80 }\n@ingress policy p = deny('
    write(tmp_path, text)  # half written
    (tmp_path / "more").mkdir()
    write(tmp_path / "more", 'use "../policies.adm"\nuse "last.adm"\nkind slow(a: int) for http', "kinds.adm")
    write(tmp_path / "more", "policy inner = slow(1) on * -> web", "last.adm")
    write(tmp_path, '{"services": [{"name": "geo"}, {"name": "$(id)"}, {"name": "a b"}]}', "g.json")
    assert offered(tmp_path / "policies.adm") == ["api", "geo", "inner", "p", "slow", "web"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\0" * 100, b"\xff\xfe", b"service", b'service "; rm -rf x" {', b"policy $(id) = x()", b"[" * 100_000],
)
def test_what_is_no_program_offers_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.adm"
    path.write_bytes(content)
    assert offered(path) == []


@pytest.mark.parametrize(
    "topology", ["[]", "{", '{"services": 3}', '{"services": [3]}', '{"services": [{}]}', "[" * 99_999]
)
def test_a_topology_that_is_none_offers_nothing(tmp_path: Path, topology: str) -> None:
    write(tmp_path, 'topology "g.json"\nservice web { http 80 }')
    write(tmp_path, topology, "g.json")
    assert offered(tmp_path / "policies.adm") == ["web"]


def test_nothing_outside_the_folder_is_read(tmp_path: Path) -> None:
    write(tmp_path, "service secret { http 80 }", "outside.adm")
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder, f'use "../outside.adm"\nuse "{tmp_path}/outside.adm"\nuse "a/../../outside.adm"\nservice web {{}}')
    assert offered(folder / "policies.adm") == ["web"]


def test_what_an_option_allows_is_read(tmp_path: Path) -> None:
    write(tmp_path, "service secret { http 80 }", "outside.adm")
    folder = tmp_path / "in"
    folder.mkdir()
    path = write(folder, 'use "../outside.adm"\nservice web {}')
    given = SimpleNamespace(params={"subject": str(path), "include": [tmp_path]})
    assert suggestions.names(given, "") == ["secret", "web"]


def test_neither_a_pipe_nor_a_device_holds_the_shell_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.adm")
    write(tmp_path, 'use "pipe.adm"\nservice web { http 80 }')
    paths = (tmp_path / "pipe.adm", Path("/dev/zero"), tmp_path, tmp_path / "none.adm", Path("a\0b"))
    found: list[list[str]] = []

    def look() -> None:
        found.append(offered(tmp_path / "policies.adm"))
        found.extend(offered(path) for path in paths)

    began = time.process_time()
    looking = threading.Thread(target=look, daemon=True)  # a pipe that is opened to be read blocks for ever
    looking.start()
    looking.join(60)
    assert not looking.is_alive()
    assert time.process_time() - began < 5
    assert found == [["web"], *[[]] * len(paths)]


def test_size_and_time_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "\n".join(f"service s{number} {{ http 80 }}" for number in range(60_000)))
    began = time.process_time()
    found = offered(tmp_path / "policies.adm")
    assert time.process_time() - began < 10
    assert 0 < len(found) <= suggestions.MAX_OFFERED
    monkeypatch.setattr(suggestions, "MAX_BYTES", 1000)
    assert offered(tmp_path / "policies.adm") == []


def test_a_chain_of_files_ends(tmp_path: Path) -> None:
    for number in range(50):
        write(tmp_path, f'use "f{number + 1}.adm"\nservice s{number} {{}}', f"f{number}.adm")
    assert len(offered(tmp_path / "f0.adm")) == suggestions.MAX_FILES


def test_subjects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("policies.adm", "x$(id).adm", "`id`.adm", "-x.adm", "notes.txt", ".hidden.adm", "a b.adm"):
        (tmp_path / name).write_text("")
    (tmp_path / "more").mkdir()
    write(tmp_path / "more", "", "inner.adm")
    assert suggestions.subjects("") == ["kinds", *guides(), "more/", "policies.adm"]
    assert suggestions.subjects("more/") == ["more/inner.adm"]
    assert suggestions.subjects("ADM") == list(registry())
    assert suggestions.subjects("R1") == ["R1", "R10"]
    assert suggestions.subjects("none/") == []
    assert set(kinds()) <= set(suggestions.subjects(""))


def test_fish_is_given_files_that_bash_finds_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, SHOP)
    assert suggestions.programs("") == []
    monkeypatch.setenv("_ADMC_COMPLETE", "complete_fish")
    assert suggestions.programs("") == ["policies.adm"]


@pytest.mark.parametrize("command", ["compile", "check", "graph", "fmt"])
def test_every_program_of_a_command_line_is_completed(tmp_path: Path, command: str) -> None:
    write(tmp_path, SHOP)
    several = ["policies.adm"] if command in ("check", "fmt") else []
    done = subprocess.run(
        [sys.executable, "-m", "admc"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_ADMC_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
            "_TYPER_COMPLETE_ARGS": " ".join(["admc", command, *several, "pol"]),
        },
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.decode().split() == ["policies.adm"]
