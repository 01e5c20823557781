"""Files beside the programs of these tests, and helpers to load them from memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import dsl
from dsl.diagnostics.diagnostic import Diagnostic, ProgramError
from dsl.files.folders import FileTooLargeError
from dsl.program import Program
from tests.emitters.envoy.wasm import module

KIND = '@ingress\nkind used() for http template "own.yaml"\n'
FILES: Mapping[str, bytes] = {
    "kinds.adm": KIND.encode(),
    "shared/kinds.adm": KIND.encode(),
    "other.adm": b"app other\n",
    "cycle.adm": b'use "policies.adm"\n',
    "binary.adm": b"\x7fELF\x00\x01",
    "filter.yaml": b"max_tokens: ${max}\n",
    "own.yaml": b"status_prefix: own\n",
    "shared/own.yaml": b"status_prefix: own\n",
    "broken.json": b'{"services": [\n',
    "shape.json": b'{"servces": []}\n',
    "graph.json": b'{"services": [{"name": "a", "protocol": "http", "port": 80}]}',
    "node.json": b"{}",
    "keys.json": b'{"keys": [{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", '
    b'"y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}',
    "empty.json": b'{"keys": []}',
    "secret.json": b'{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}',
    "filter.lua": b"function envoy_on_request(handle) end\n",
    "broken.lua": b"function envoy_on_request(handle)\n",
    "filter.wasm": module(),
    **{f"deep{level}.adm": f'use "deep{level + 1}.adm"\n'.encode() for level in range(70)},
}


def reader(files: Mapping[str, bytes]) -> Callable[[str], bytes]:
    def read(path: str) -> bytes:
        if path == "large.adm":
            raise FileTooLargeError
        if path not in files:
            raise FileNotFoundError(path)
        return files[path]

    return read


def load(text: str, files: Mapping[str, bytes] = FILES) -> Program:
    return dsl.load_text(text, read=reader({"policies.adm": text.encode("utf-8", "replace"), **files}))


def findings(text: str, files: Mapping[str, bytes] = FILES) -> tuple[Diagnostic, ...]:
    """Errors, warnings and notes of a program."""
    try:
        program = load(text, files)
        return *program.warnings, *program.notes
    except ProgramError as error:
        return error.diagnostics


def codes(text: str, files: Mapping[str, bytes] = FILES) -> list[str]:
    return [finding.code for finding in findings(text, files)]
