"""Archives of images, without containerd."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

from tests.cluster.node.images import Image, libraries


def _image(tmp_path: Path) -> Image:
    program = tmp_path / "program"
    program.write_bytes(b"#!/bin/sh\n")
    program.chmod(0o700)
    return Image("tool:1", {"/bin/program": program, "/etc/x": b"y"}, {"/bin/alias": "program"}, ("/bin/program",))


def test_an_archive_has_the_files_under_digests_that_hold(tmp_path: Path) -> None:
    archive = _image(tmp_path).write(tmp_path / "images")
    with tarfile.open(archive) as tar:
        parts = {name: tar.extractfile(name).read() for name in tar.getnames()}  # type: ignore[union-attr]
    for name, content in parts.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(content).hexdigest() == name.rpartition("/")[2]
    (entry,) = json.loads(parts["index.json"])["manifests"]
    assert entry["annotations"] == {"io.containerd.image.name": "docker.io/library/tool:1"}
    manifest = json.loads(parts["blobs/sha256/" + entry["digest"].partition(":")[2]])
    (layer,) = manifest["layers"]
    with tarfile.open(fileobj=io.BytesIO(parts["blobs/sha256/" + layer["digest"].partition(":")[2]])) as tar:
        members = {member.name: member for member in tar.getmembers()}
    assert members["bin/program"].mode == 0o755
    assert members["bin/alias"].linkname == "program"
    assert members["etc/x"].mode == 0o644


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    image = _image(tmp_path)
    first = image.write(tmp_path / "a").read_bytes()
    (tmp_path / "program").touch()
    assert image.write(tmp_path / "b").read_bytes() == first


def test_short_names_are_those_that_containerd_knows() -> None:
    names = {"tool:1": "docker.io/library/tool:1", "me/tool:1": "docker.io/me/tool:1", "a.b/tool:1": "a.b/tool:1"}
    assert {name: Image(name, {}).full_name for name in names} == names


def test_a_program_brings_its_loader_and_its_libraries() -> None:
    found = {Path(path).name for path in libraries([Path("/bin/sh").resolve()])}
    assert any(name.startswith(("ld-", "ld.")) for name in found)
    assert "libc.so.6" in found
