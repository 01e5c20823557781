"""Debian's packages for the node, unpacked into the cache and not installed."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.golang import MissingError, cache_folder

PACKAGES: Final = ("containerd", "runc", "containernetworking-plugins", "iptables", "busybox-static", "libfaketime")
_LEFT_OUT: Final = ("libc6", "libcrypt1", "libgcc-s1")
"""Every Debian has them."""
_DOWNLOAD_SECONDS: Final = 600.0
_NO: Final = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")


def place() -> Path:
    """Where they are, or will be: one folder for each release of Debian and list of packages."""
    digest = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
    return cache_folder() / f"debian-{_release()}-{platform.machine()}-{digest}"


def find() -> Path:
    """The folder with `usr` and `sbin` in it. Raises `MissingError`."""
    if not (place() / "versions").is_file():
        raise MissingError("containerd and runc are not in the cache; `make tools` unpacks them (Debian)")
    return place()


def unpack() -> Path:
    """Download and unpack them, with the libraries that they depend on, unless that was done. Raises `MissingError`."""
    target = place()
    if (target / "versions").is_file():
        return target
    for program in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(program) is None:
            raise MissingError(f"this is not Debian: there is no `{program}`")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="debian-") as folder:
        debs, root = Path(folder) / "debs", Path(folder) / "root"
        debs.mkdir()
        names = _with_libraries()
        _run(debs, "apt-get", "-qq", "download", *names)
        files = sorted(debs.glob("*.deb"))
        for file in files:
            _run(debs, "dpkg", "-x", str(file), str(root))
        (root / "versions").write_text("".join(f"{file.stem}\n" for file in files), encoding="utf-8")
        shutil.rmtree(target, ignore_errors=True)
        root.replace(target)
    return target


def fake_time(offset: Path) -> dict[str, str]:
    """The environment of a program whose time of day is off by what stands in a file, such as `-3600s`, at each moment.

    Its clocks that only go forward are right, as where an operator sets the time. Raises `MissingError`.
    """
    return {
        "LD_PRELOAD": str(libraries(find()) / "faketime" / "libfaketime.so.1"),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }


def libraries(folder: Path) -> Path:
    """The folder with the shared libraries."""
    return next(path for path in sorted((folder / "usr" / "lib").glob("*-linux-gnu*")))


def _with_libraries() -> list[str]:
    """The packages, and the libraries that they depend on."""
    listed = _run(Path.cwd(), "apt-cache", "depends", "--recurse", *(f"--no-{kind}" for kind in _NO), *PACKAGES)
    found = {line for line in listed.splitlines() if line.startswith("lib") and line not in _LEFT_OUT}
    return [*PACKAGES, *sorted(found)]


def _release() -> str:
    try:
        facts = platform.freedesktop_os_release()
    except OSError:
        return "unknown"
    return f"{facts.get('ID', 'unknown')}-{facts.get('VERSION_ID', 'unknown')}"


def _run(folder: Path, *command: str) -> str:
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, timeout=_DOWNLOAD_SECONDS)
    if done.returncode:
        said = done.stderr.strip() or done.stdout.strip()
        raise MissingError(f"`{' '.join(command[:3])}` failed: {said[-300:]}; `apt-get update` may help")
    return done.stdout
