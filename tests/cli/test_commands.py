"""The other commands: check, fmt, graph, completion, doctor, and options that several commands share."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from admc.cli.options import AdmMode
from admc.cli.serve import ServeLog
from admc.serve.observe.events import LogFormat
from emitters.envoy import Mode
from tests.cli.command import ROOT, Admc, process
from tests.cli.programs import SHOP, write


def test_check(admc: Admc, shop: Path) -> None:
    run = admc("check", shop)
    assert run.code == 0
    assert "no errors (5 services, 1 external," in run.out
    assert "warning[" in run.out
    assert json.loads(admc("check", shop, "--format", "json").out)["policies"] == 4


def test_check_never_solves(shop: Path) -> None:
    probe = (
        "import sys; from admc.__main__ import main; code = main(['check', *sys.argv[1:]]); "
        "heavy = {'ortools', 'google.protobuf', 'rich', 'jsonschema', 'solver.place'} & set(sys.modules); "
        "sys.exit(f'loaded {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe, str(shop), str(shop.parent)], cwd=ROOT, capture_output=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("check", "policies.adm"), ("fmt", "policies.adm")])
def test_commands_that_read_no_document_load_no_reader_of_documents(shop: Path, arguments: tuple[str, ...]) -> None:
    probe = (
        "import sys; from admc.__main__ import main; code = main(sys.argv[1:]); "
        "sys.exit('it is loaded' if {'pydantic', 'pydantic_core'} & set(sys.modules) else code)"
    )
    done = subprocess.run([sys.executable, "-c", probe, *arguments], cwd=shop.parent, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_fmt(admc: Admc, tmp_path: Path) -> None:
    path = write(tmp_path, "app   shop   // name\n\n\n\nservice cart   {http 8080}\n")
    before = path.read_text()
    run = admc("fmt", "--check", path)
    assert run.code == 1
    assert "ADM808" in run.err
    run = admc("fmt", "--diff", path)
    assert run.code == 0
    assert "-app   shop   // name" in run.out
    assert path.read_text() == before
    assert admc("fmt", path).code == 0
    after = path.read_text()
    assert after != before
    assert "// name" in after
    assert admc("fmt", "--check", path).code == 0
    assert admc("fmt", path).out == ""
    assert path.read_text() == after


def test_fmt_formats_what_it_can(admc: Admc, tmp_path: Path) -> None:
    good = write(tmp_path, "app   shop\n", "good.adm")
    bad = write(tmp_path, "app = = (\n", "bad.adm")
    run = admc("fmt", bad, good)
    assert run.code == 1
    assert "bad.adm:1" in run.err
    assert good.read_text() == "app shop\n"


def test_fmt_counts_all_findings_once(admc: Admc, tmp_path: Path) -> None:
    wrong, odd = write(tmp_path, "app\n", "wrong.adm"), write(tmp_path, "app   shop\n", "odd.adm")
    run = admc("fmt", "--check", wrong, odd, tmp_path / "none.adm")
    assert run.code == 1
    assert run.err.endswith("\n\n3 errors\n")
    assert run.err.count("error[") == 3


def test_fmt_shows_nothing_of_what_is_no_program(admc: Admc, tmp_path: Path) -> None:
    (tmp_path / "env").write_text("PASSWORD=hunter2\n")
    (tmp_path / "policies.adm").symlink_to("env")
    for option in ("--check", "--diff"):
        run = admc("fmt", option, tmp_path / "policies.adm")
        assert run.code == 1
        assert "it is a link to a file with another suffix" in run.err
        assert "hunter2" not in run.out + run.err


READING: dict[str, tuple[str, ...]] = {
    "compile": ("--json",),
    "check": (),
    "explain": (),
    "graph": (),
    "serve": ("--xds", "127.0.0.1:0"),
}
"""Commands that read a program, and what else they want; `serve` stops at the certificates that it has not."""


@pytest.mark.parametrize("command", READING)
def test_every_command_that_reads_a_program_takes_folders_for_its_files(
    admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    for name in ("app", "shared", "more"):
        (tmp_path / name).mkdir()
    write(tmp_path / "app", f'use "../shared/a.adm"\nuse "../more/b.adm"\n{SHOP}')
    write(tmp_path / "shared", "", "a.adm")
    write(tmp_path / "more", "", "b.adm")
    monkeypatch.chdir(tmp_path)
    both = ("--include", "shared", "--include", "more")
    if command == "serve":
        assert "ADM850" in admc(command, "app/policies.adm", *both, *READING[command]).err
    else:
        refused = admc(command, "app/policies.adm", "--include", "more", *READING[command])
        assert refused.code == 1
        assert "ADM509" in refused.out + refused.err
        assert "--include shared" in refused.out + refused.err
        assert admc(command, "app/policies.adm", *both, *READING[command]).code == 0
    for name in ("none", "app/policies.adm"):
        run = admc(command, "app/policies.adm", "--include", name, *READING[command])
        assert run.code == 1
        assert "ADM826" in run.out + run.err


def test_where_an_included_folder_is_changes_no_byte_of_a_plan(admc: Admc, tmp_path: Path) -> None:
    plans = []
    for place in ("one", "two/deeper"):
        for name in ("app", "shared"):
            (tmp_path / place / name).mkdir(parents=True)
        program = write(tmp_path / place / "app", f'use "../shared/a.adm"\n{SHOP}')
        write(tmp_path / place / "shared", "", "a.adm")
        plans.append(admc("compile", program, "--include", tmp_path / place / "shared", "--json").out)
    assert plans[0] == plans[1]
    assert '"../shared/a.adm"' in plans[0]


def test_fmt_shows_nothing_of_what_is_elsewhere(admc: Admc, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    write(tmp_path, "app   hunter2\n", "secret.adm")
    (tmp_path / "app" / "policies.adm").symlink_to("../secret.adm")
    run = admc("fmt", "--diff", tmp_path / "app" / "policies.adm")
    assert run.code == 1
    assert "it is a symbolic link that leads out of its folder" in run.err
    assert "hunter2" not in run.out + run.err


def test_fmt_of_standard_input() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "admc", "fmt", "-"], cwd=ROOT, input=b"app   shop\n", capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, b"app shop\n")


@pytest.mark.parametrize("format_", ["mermaid", "dot", "svg"])
def test_graph(admc: Admc, shop: Path, tmp_path: Path, format_: str) -> None:
    run = admc("graph", shop, "--format", format_)
    assert run.code == 0
    assert "search" in run.out
    suffix = {"mermaid": "mmd"}.get(format_, format_)
    for options, name in (
        ((), f"a.{suffix}"),
        (("--format", format_), f"b.{suffix}"),
        ((), f"C.{suffix.upper()}"),
        ((), f"d.e.{suffix}"),
    ):
        assert admc("graph", shop, *options, "-o", tmp_path / name).code == 0
        assert (tmp_path / name).read_text() == run.out


NO_PICTURES = {
    ("-o", "x.png"): ("`x.png` does not have the ending of a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", "picture"): ("`picture` does not have the ending of a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", "picture", "--format", "svg"): ("`picture` does not have the ending of a picture", "write `-o picture.svg`"),
    ("-o", "/", "--format", "svg"): ("`/` does not have the ending of a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", ".svg"): ("`.svg` does not have the ending of a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", "x.svg.gz"): ("`x.svg.gz` does not have the ending of a picture", "`.mmd`, `.dot` and `.svg`"),
    ("-o", "x.svg", "--format", "dot"): ("`--format dot` and `x.svg` contradict each other", "write `-o x.dot`"),
    ("-o", "x.mmd", "--format", "svg"): ("`--format svg` and `x.mmd` contradict each other", "write `-o x.svg`"),
}


@pytest.mark.parametrize("options", NO_PICTURES, ids=" ".join)
def test_the_name_of_a_picture_says_its_format(
    admc: Admc, shop: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.chdir(shop.parent)
    said, hint = NO_PICTURES[options]
    for program in ("policies.adm", "none.adm"):  # found before anything is read
        run = admc("graph", program, *options)
        assert (run.code, run.out) == (1, "")
        assert f"error[ADM801]: {said}" in run.err
        assert hint in run.err
    assert [entry.name for entry in shop.parent.iterdir()] == ["policies.adm"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(admc: Admc, shell: str) -> None:
    run = admc("completion", shell)
    assert run.code == 0
    assert "_ADMC_COMPLETE" in run.out


def test_completion_completes() -> None:
    done = process(_ADMC_COMPLETE="complete_bash", COMP_WORDS="admc comp", COMP_CWORD="1")
    assert done.stdout.split() == [b"compile", b"completion"]


@pytest.mark.long
def test_doctor(admc: Admc) -> None:
    run = admc("doctor", "--format", "json")
    found = {finding["subject"]: finding for finding in json.loads(run.out)["findings"]}
    assert found["solver"]["verdict"] == "ok"
    assert found["protobuf"]["verdict"] == "ok"
    assert run.code == (1 if any(finding["verdict"] == "wrong" for finding in found.values()) else 0)
    assert "python" in admc("doctor").out


def test_doctor_tells_a_version_that_does_not_fit(admc: Admc, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "99.1" if name == "protobuf" else real(name))
    run = admc("doctor")
    assert run.code == 1
    assert "99.1, and admc needs" in run.out


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        (("parts.adm", "b/shop.adm"), "hint: name a program in it, such as `b/shop.adm`"),
        ((), "hint: name the file of a program: `policies.adm`"),
    ],
)
def test_a_folder_where_one_program_is_expected(
    files: tuple[str, ...], hint: str, admc: Admc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "b").mkdir()
    for name in files:
        write(tmp_path, "policy p = deny() on a -> b\n" if name == "parts.adm" else "app shop\n", name)
    monkeypatch.chdir(tmp_path)
    for command in ("compile", "graph"):
        for folder in (".", str(tmp_path)):
            done = admc(command, folder)
            assert done.code == 1
            assert f"cannot read `{folder}`: it is a folder" in done.err
            assert hint.replace("b/", f"{folder}/b/".removeprefix("./")) in done.err


def test_options_say_the_same_as_what_they_are_for() -> None:
    # Help does not import it, because that takes time.
    assert [*AdmMode] == [mode for mode in Mode if mode is not Mode.POD], "an ADM in a pod is `admc inject`'s"
    assert [*ServeLog] == [*LogFormat]
