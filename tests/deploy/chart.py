"""The chart, and the manifests that are made from it.

python -m tests.deploy.chart    writes deploy/install.yaml anew; needs Helm (`python -m tests.cluster.tools helm`)
"""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from tests.cluster import tools

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "deploy" / "chart"
INSTALL: Final = ROOT / "deploy" / "install.yaml"
NAMESPACE: Final = "admc-system"
COMMAND: Final = f"helm template admc deploy/chart --namespace {NAMESPACE} --set createNamespace=true"
NAME: Final = "admc-main"
"""Of the objects of the installation `main`."""


def definition() -> dict[str, Any]:
    """The definition of the kind `Program`."""
    found: dict[str, Any] = yaml.safe_load((CHART / "definitions" / "program.yaml").read_text(encoding="utf-8"))
    return found


def definitions() -> list[dict[str, Any]]:
    """The definitions of all kinds."""
    files = sorted((CHART / "definitions").glob("*.yaml"))
    return [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]


def installed() -> list[dict[str, Any]]:
    """The objects of deploy/install.yaml."""
    return [each for each in yaml.safe_load_all(INSTALL.read_text(encoding="utf-8")) if each]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Raises `MissingError` where the cache lacks Helm."""
    command = [str(tools.find(tools.HELM)), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def rendered(*arguments: str, namespace: str = NAMESPACE) -> str:
    """What `helm template` prints. Raises `MissingError`."""
    done = helm("template", "admc", str(CHART), "--namespace", namespace, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def digest() -> str:
    """Of the files of the chart: without Helm, too, a test sees that deploy/install.yaml is older than they are."""
    made = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        made.update(path.relative_to(CHART).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return made.hexdigest()[:16]


def head() -> str:
    """The first lines of deploy/install.yaml."""
    return (
        f"# The output of `{COMMAND}`.\n"
        f"# From a chart with the digest {digest()}; `python -m tests.deploy.chart` writes it anew.\n"
    )


def install_text() -> str:
    """deploy/install.yaml, as it has to be. Raises `MissingError`."""
    return head() + rendered("--set", "createNamespace=true")


if __name__ == "__main__":
    INSTALL.write_text(install_text(), encoding="utf-8")
