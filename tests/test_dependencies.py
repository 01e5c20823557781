"""What the packages and the tests import is declared in `pyproject.toml`: for each user, or by the extra that needs it.

A package that comes along with another one today may not come along with its next release.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("dsl", "solver", "emitters", "xds_server", "admc")
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: Final = {
    "admc/kubernetes/cluster": ("cluster",),
    "admc/cost/traces": ("traces",),
    "admc/istio": ("istio",),
    "tests": ("dev", "cluster", "istio", "traces"),
}
"""Folders -> the extras that they may rely on."""
LIKE_AN_IMPORT: Final = re.compile(r"(?:^[ \t]*(?:import|from)[ \t]+|import_module\(\")([A-Za-z_]\w*)", re.MULTILINE)


def declared(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(each).name) for each in requirements}


ALWAYS: Final = declared(PROJECT["dependencies"])


def imports(text: str) -> Iterator[str]:
    """The top names of the modules that a program imports, anywhere in it, also by `import_module("name")`."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(str(module), _, 0) | ast.Call(
                ast.Name("import_module") | ast.Attribute(_, "import_module"), [ast.Constant(str(module))]
            ):
                yield module.partition(".")[0]


def lacking(path: Path, distributions: dict[str, list[str]]) -> set[str]:
    """The imports of a file, relative to the root, that no declared distribution brings."""
    allowed = set(ALWAYS)
    for folder, extras in EXTRAS.items():
        if path.is_relative_to(folder):
            allowed.update(*(declared(PROJECT["optional-dependencies"][extra]) for extra in extras))
    text = (ROOT / path).read_text(encoding="utf-8")
    own = {*sys.stdlib_module_names, *PACKAGES, "deploy", "tests", "_typeshed"}

    def is_lacking(name: str) -> bool:
        return name not in own and not allowed & {canonicalize_name(each) for each in distributions.get(name, [])}

    # Most files need no parsing: their lines that look like imports name nothing that is lacking.
    if not any(is_lacking(name) for name in LIKE_AN_IMPORT.findall(text)):
        return set()
    return {name for name in imports(text) if is_lacking(name)}


def test_every_import_is_declared_where_it_is_needed() -> None:
    distributions = {name: list(found) for name, found in packages_distributions().items()}
    files = [path.relative_to(ROOT) for name in (*PACKAGES, "tests") for path in sorted((ROOT / name).rglob("*.py"))]
    assert len(files) > 300
    undeclared = {str(path): names for path in files if (names := lacking(path, distributions))}
    assert undeclared == {}


def test_the_check_sees_imports_wherever_they_stand() -> None:
    text = (
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a.b\nfrom . import c\n"
        "def f():\n    try:\n        import d.e as g\n    finally:\n        from h.i import j\n"
        'x = importlib.import_module("k.l")\n'
    )
    assert set(imports(text)) == {"typing", "a", "d", "h", "k"}
    assert {"typing", "a", "d", "h", "k"} <= set(LIKE_AN_IMPORT.findall(text))


def test_the_check_sees_an_extra_that_is_not_always_there() -> None:
    distributions = {name: list(found) for name, found in packages_distributions().items()}
    assert lacking(Path("admc/kubernetes/cluster/api/connection.py"), distributions) == set()
    assert lacking(Path("admc/kubernetes/cluster/api/connection.py"), {**distributions, "kubernetes": ["other"]}) == {
        "kubernetes"
    }


@pytest.mark.parametrize("extra", [None, *PROJECT["optional-dependencies"]])
def test_the_lock_file_has_what_is_declared_in_its_range(extra: str | None) -> None:
    wanted = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^ ;\\]+)", lock, re.MULTILINE):
        pinned.setdefault(canonicalize_name(name), set()).add(version)
    for each in map(Requirement, wanted):
        versions = pinned.get(canonicalize_name(each.name), set())
        assert versions, f"`{each.name}` is not in requirements.lock: run `make lock`"
        assert all(each.specifier.contains(version) for version in versions), each
