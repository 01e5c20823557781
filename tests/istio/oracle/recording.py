"""The file with what Istio makes of the meshes and documents of these tests, so that no test needs Go.

Recording --write--> recorded.json.gz --read--> Recording
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.istio.objects import Json

FILE: Final = Path(__file__).with_name("recorded.json.gz")
PROGRAM: Final = Path(__file__).with_name("program")
RANDOM_MESHES: Final = 100


class StaleError(Exception):
    """The file is about another mesh than the one that is asked for."""


@dataclass(frozen=True)
class Recording:
    module: str
    """The version of Istio."""
    meshes: Mapping[str, Json]
    """By name of the case: the digest of what was asked, and the facts of each proxy."""
    documents: Mapping[str, str]
    """By digest of the document: why Istio refuses it, in words of `verdicts.py`; empty where it does not."""

    def proxies(self, request: Json) -> Json:
        """The facts of each proxy of a case. Raises `StaleError`."""
        recorded = self.meshes.get(request["name"])
        if recorded is None or recorded["digest"] != digest(request):
            raise StaleError(f"`{request['name']}` is another mesh than the recorded one: run `make oracle`")
        proxies: Json = recorded["proxies"]
        return proxies

    def refusal(self, document: Json) -> str:
        """Why Istio refuses a document. Raises `StaleError`."""
        try:
            return self.documents[digest(document)]
        except KeyError:
            raise StaleError(f"{json.dumps(document)[:200]} is not recorded: run `make oracle`") from None


def digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def module_version() -> str:
    """The version of Istio that the program is built with."""
    lines = (PROGRAM / "go.mod").read_text(encoding="utf-8").splitlines()
    (version,) = [words[-1] for words in map(str.split, lines) if "istio.io/istio" in words]
    return version


def write(recording: Recording) -> None:
    text = json.dumps(
        {"module": recording.module, "meshes": recording.meshes, "documents": recording.documents},
        separators=(",", ":"),
        sort_keys=True,
    )
    FILE.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))


def read() -> Recording:
    return Recording(**json.loads(gzip.decompress(FILE.read_bytes())))
