"""Asks Istio's own code what it makes of the meshes and the documents of these tests, and records the answers.

    python -m tests.istio.oracle     builds the program (15 to 40 minutes of CPU the first time) and writes the file

Istio's test server builds the configuration of each proxy in the program's process, without a cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.golang import MissingError, build
from tests.istio.objects import Json
from tests.istio.oracle.by_hand import CASES
from tests.istio.oracle.meshes import Case, random_mesh
from tests.istio.oracle.recording import FILE, PROGRAM, RANDOM_MESHES, Recording, digest, module_version, write
from tests.istio.oracle.verdicts import documents, reason

BUILD_SECONDS = 7200.0
ANSWER_SECONDS = 1200.0
PART = 10
"""Meshes of one run of the program: its servers stay until it ends."""


def main() -> int:
    try:
        program = build(PROGRAM, "istio-oracle", seconds=BUILD_SECONDS)
    except MissingError as error:
        print(error, file=sys.stderr)
        return 1
    cases = [*(expected.case for expected in CASES), *map(random_mesh, range(RANDOM_MESHES))]
    meshes: dict[str, Json] = {}
    for start in range(0, len(cases), PART):
        meshes.update(_meshes(program, cases[start : start + PART]))
        print(f"{len(meshes)} of {len(cases)} meshes", file=sys.stderr)
    wrong = {name: entry["error"] for name, entry in meshes.items() if "error" in entry}
    for name, message in wrong.items():
        print(f"{name}: {message}", file=sys.stderr)
    if wrong:
        return 1
    verdicts = _verdicts(program)
    write(Recording(module_version(), meshes, verdicts))
    print(f"{FILE}: {FILE.stat().st_size:,} bytes, {len(meshes)} meshes, {len(verdicts)} documents")
    return 0


def ask(program: Path, cases: list[Json], asked: list[Json]) -> Any:
    """The answer of the program."""
    request = json.dumps({"cases": cases, "documents": asked})
    done = subprocess.run([str(program)], input=request, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    if done.returncode:
        raise SystemExit(f"the oracle ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout)


def _meshes(program: Path, cases: list[Case]) -> dict[str, Json]:
    requests = [case.request() for case in cases]
    made: dict[str, Json] = {}
    for request, result in zip(requests, ask(program, requests, [])["cases"], strict=True):
        entry = {"error": result["error"]} if result.get("error") else {"proxies": result.get("proxies", {})}
        made[request["name"]] = {"digest": digest(request), **entry}
    return made


def _verdicts(program: Path) -> dict[str, str]:
    asked = list(documents())
    verdicts = ask(program, [], asked)["documents"]
    return {digest(document): reason(verdict) for document, verdict in zip(asked, verdicts, strict=True)}


if __name__ == "__main__":
    sys.exit(main())
