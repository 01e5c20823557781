"""The programs of a cluster, built from Go modules, and where the cache has them.

A module of each folder names versions, and the main packages of what it requires (`tool`). That of cert-manager has
code of its own: the `main` of cert-manager is in a module that no proxy serves.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from tests import golang
from tests.golang import BuildError, MissingError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["BuildError", "MissingError", "Program", "build", "find", "missing"]

HINT: Final = "`make tools` builds it (Go; 20 to 30 minutes of CPU for everything)"
_KUBERNETES_VERSION: Final = "k8s.io/component-base/version.gitVersion"
_HELM_VERSION: Final = "helm.sh/helm/v3/internal/version.version"
_OF_HELM: Final = ("helm.sh/helm/v3/pkg/chartutil", "helm.sh/helm/v3/pkg/lint/rules")


OWN: Final = "."
"""Stands for the package in the folder itself."""


class Program(NamedTuple):
    name: str
    module: str
    """The folder beside this file."""
    package: str


def _kubernetes(name: str) -> Program:
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}")


ETCD: Final = Program("etcd", "etcd", "go.etcd.io/etcd/server/v3")
API_SERVER: Final = _kubernetes("kube-apiserver")
CONTROLLER_MANAGER: Final = _kubernetes("kube-controller-manager")
SCHEDULER: Final = _kubernetes("kube-scheduler")
KUBELET: Final = _kubernetes("kubelet")
PROXY: Final = _kubernetes("kube-proxy")
KUBECTL: Final = _kubernetes("kubectl")
KWOK: Final = Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok")
HELM: Final = Program("helm", "helm", "helm.sh/helm/v3/cmd/helm")
CERT_MANAGER: Final = Program("cert-manager", "cert-manager", OWN)

PROGRAMS: Final = (ETCD, API_SERVER, KUBELET, CONTROLLER_MANAGER, SCHEDULER, PROXY, KUBECTL, KWOK, HELM, CERT_MANAGER)
"""In the order in which they are built: what most tests need comes first."""
NODE: Final = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KUBELET, PROXY)


def sources(program: Program) -> Path:
    return Path(__file__).parent / program.module


def find(program: Program) -> Path:
    """Where the cache has it. Raises `MissingError`."""
    found = golang.find(sources(program), program.name)
    if found is None:
        raise MissingError(f"`{program.name}` is not in the cache; {HINT}")
    return found


def missing(programs: Iterable[Program]) -> list[Program]:
    return [program for program in programs if golang.find(sources(program), program.name) is None]


def build(program: Program, seconds: float) -> Path:
    """Raises `MissingError`, `BuildError` and `TimeoutExpired`."""
    settings = " ".join(f"-X {name}={value}" for name, value in _settings(program).items())
    return golang.build(sources(program), program.name, program.package, flags=settings, seconds=seconds)


def _settings(program: Program) -> dict[str, str]:
    """Variables that the linker sets, as the makefiles of the modules do: the versions that a program says."""
    module = sources(program) / "go.mod"
    if program.module == "kubernetes":
        return {_KUBERNETES_VERSION: _required(module, "k8s.io/kubernetes")}
    if program == HELM:
        minor = _required(module, "k8s.io/client-go").split(".")[1]
        # Without a cluster, charts are rendered for this version of Kubernetes.
        kubernetes = {
            f"{package}.k8sVersion{part}": value
            for package in _OF_HELM
            for part, value in (("Major", "1"), ("Minor", minor))
        }
        return {_HELM_VERSION: _required(module, "helm.sh/helm/v3"), **kubernetes}
    return {}


def _required(module: Path, name: str) -> str:
    """The version of a module that go.mod requires."""
    match = re.search(rf"^(?:require)?\s+{re.escape(name)} (v\S+)", module.read_text(encoding="utf-8"), re.MULTILINE)
    assert match is not None, f"{module} does not require {name}"
    return match[1]
