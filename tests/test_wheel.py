"""The wheel holds all that admc needs: built, installed into an environment of its own, and run in another folder."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from admc.__main__ import main

ROOT = Path(__file__).parents[1]
PACKAGES = ("admc", "dsl", "emitters", "solver", "xds_server")
EXAMPLE = ROOT / "examples" / "hotel_reservation"
SECONDS = 120.0
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def _run(*command: str | Path, cwd: Path) -> str:
    """Its standard output, run without the checkout on Python's path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _tracked(*folders: str) -> list[str]:
    return _run("git", "ls-files", "-z", *folders, cwd=ROOT).split("\0")[:-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from tracked files alone, so that nothing that an earlier build left behind comes into it."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in _tracked(*PACKAGES, "pyproject.toml", "README.md", "LICENSE"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    _run(*PIP, "wheel", "--no-index", "--no-build-isolation", "--no-deps", "-w", built, source, cwd=built)
    (path,) = built.iterdir()
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment's folder of programs. What admc depends on comes from the environment that runs the tests."""
    environment = tmp_path_factory.mktemp("installed")
    _run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    python = environment / "bin" / "python"
    _run(*PIP, "--python", python, "install", "--no-index", "--no-deps", wheel, cwd=environment)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()), encoding="utf-8")
    return environment / "bin"


@pytest.mark.long
def test_every_tracked_file_of_the_packages_is_in_the_wheel_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        contents = {name for name in archive.namelist() if not name.partition("/")[0].endswith(".dist-info")}
    assert contents == set(_tracked(*PACKAGES))


@pytest.mark.long
def test_the_installed_program_is_the_wheels(installed: Path, tmp_path: Path) -> None:
    code = f"import importlib; print(*(importlib.import_module(name).__file__ for name in {PACKAGES}))"
    places = _run(installed / "python", "-c", code, cwd=tmp_path).split()
    assert len(places) == len(PACKAGES)
    assert all(Path(place).is_relative_to(installed.parent) for place in places)
    assert _run(installed / "admc", "--version", cwd=tmp_path).startswith("admc ")


@pytest.mark.long
def test_the_installed_program_compiles_an_example_in_another_folder(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "shop"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("*.plan.json"))
    _run(installed / "admc", "check", "policies.adm", cwd=folder)
    _run(installed / "admc", "compile", "policies.adm", "--emit", "out", cwd=folder)
    monkeypatch.chdir(folder)
    assert main(["compile", "policies.adm", "-o", "expected.json"]) == 0
    assert (folder / "policies.plan.json").read_text(encoding="utf-8") == Path("expected.json").read_text(
        encoding="utf-8"
    )
    assert (folder / "out" / "search" / "bootstrap.yaml").is_file()
    assert "retry" in _run(installed / "admc", "explain", "retry", cwd=folder)
