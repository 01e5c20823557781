"""Images of containers, made from files of this machine: no registry is asked.

An image is an OCI archive with one layer, the same bytes for the same files.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import sysconfig
import tarfile
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.requirements import Requirement

from admc.testbed.envoys import envoy_binary
from deploy import requirements
from tests.cluster.tools import debian
from tests.golang import MissingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT: Final = Path(__file__).parents[3]
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
_FOLDERS: Final = {"tmp": 0o1777, "run": 0o755, "run/lock": 0o755, "etc": 0o755, "root": 0o755}
_ETC: Final = {
    "/etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n",
    "/etc/group": b"root:x:0:\n",
    "/etc/nsswitch.conf": b"hosts: files dns\n",
}
_SKIPPED: Final = re.compile(
    r"(^|/)(__pycache__|test|tests|idlelib|tkinter|turtledemo|ensurepip|lib2to3|config-[^/]*|site-packages)(/|$)"
)
PACKAGES: Final = ("admc", "dsl", "emitters", "solver", "xds_server")
"""The repository's own."""


@dataclass(frozen=True)
class Image:
    """What an image has: by path in it, a file of this machine or the content itself."""

    name: str
    files: Mapping[str, Path | bytes]
    links: Mapping[str, str] = field(default_factory=dict)
    """By path in the image: where the symbolic link leads."""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    """The user of a container whose specification names none; empty: root."""

    @property
    def full_name(self) -> str:
        """As containerd knows it: with the registry and folder that a short name stands for."""
        first, slash, _ = self.name.partition("/")
        if not slash:
            return f"docker.io/library/{self.name}"
        return self.name if "." in first or ":" in first or first == "localhost" else f"docker.io/{self.name}"

    def write(self, folder: Path) -> Path:
        """The archive, in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        stem = re.sub(r"[^\w.-]", "-", self.name)
        layer, archive = folder / f"{stem}.layer", folder / f"{stem}.tar"
        with tarfile.open(layer, "w") as tar:
            self._fill(tar)
        with layer.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with tarfile.open(archive, "w") as tar:
            self._pack(tar, layer, digest)
        layer.unlink()
        return archive

    def _fill(self, tar: tarfile.TarFile) -> None:
        for path, mode in _FOLDERS.items():
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for path, content in sorted({**_ETC, **self.files}.items()):
            entry = tarfile.TarInfo(path.lstrip("/"))
            if isinstance(content, bytes):
                entry.mode, entry.size = 0o644, len(content)
                tar.addfile(entry, io.BytesIO(content))
            else:
                found = content.stat()
                entry.mode, entry.size = 0o755 if found.st_mode & 0o100 else 0o644, found.st_size
                with content.open("rb") as file:
                    tar.addfile(entry, file)
        for path, target in sorted(self.links.items()):
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)

    def _pack(self, tar: tarfile.TarFile, layer: Path, digest: str) -> None:
        own = {"Env": [f"{name}={value}" for name, value in sorted(self.environment.items())], "WorkingDir": "/"}
        if self.command:
            own["Entrypoint"] = list(self.command)
        if self.user:
            own["User"] = self.user
        platform = {"architecture": _ARCHITECTURES.get(_machine(), _machine()), "os": "linux"}
        roots = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
        config = _json({**platform, "config": own, "rootfs": roots})
        layers = [{"mediaType": _LAYER, "digest": f"sha256:{digest}", "size": layer.stat().st_size}]
        manifest = _json(
            {"schemaVersion": 2, "mediaType": _MANIFEST, "config": _described(_CONFIG, config), "layers": layers}
        )
        entry = {**_described(_MANIFEST, manifest), "annotations": {"io.containerd.image.name": self.full_name}}
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
        for content in (config, manifest):
            _add(tar, f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content)
        info = tarfile.TarInfo(f"blobs/sha256/{digest}")
        info.size = layer.stat().st_size
        with layer.open("rb") as file:
            tar.addfile(info, file)


def busybox(name: str = "busybox:test") -> Image:
    """Debian's static busybox with all its programs. Raises `MissingError`."""
    program = debian.find() / "bin" / "busybox"
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"/bin/{each}": "busybox" for each in listed if each != "busybox"}
    return Image(name, {"/bin/busybox": program}, links, ("/bin/sh",), {"PATH": "/bin"})


def pause() -> Image:
    """What holds the namespaces of a pod."""
    return replace(busybox("localhost/pause:test"), command=("/bin/sleep", "2147483647"))


def program(name: str, path: Path) -> Image:
    """A static program by itself."""
    return Image(name, {f"/bin/{path.name}": path}, {}, (f"/bin/{path.name}",), {"PATH": "/bin"})


def envoy(name: str = "envoy:test") -> Image:
    """The Envoy of the development dependencies. Raises `MissingError`."""
    found = envoy_binary()
    if found is None:
        raise MissingError("there is no Envoy for this platform (development dependencies)")
    files = {"/usr/local/bin/envoy": Path(found), **libraries([Path(found)])}
    return Image(name, files, {}, ("/usr/local/bin/envoy",), {"PATH": "/usr/local/bin"})


def python(
    name: str = "admc:test", site_packages: Iterable[str] = (), folders: Iterable[str] = (), *, code: Path = ROOT
) -> Image:
    """This Python with the repository's packages, iptables, and some of what is installed beside them.

    `site_packages` are top-level names beyond those that `admc.pod` needs; `folders` are more of the repository's;
    `code` is another checkout of it. Raises `MissingError`.
    """
    stdlib = Path(sysconfig.get_path("stdlib"))
    shared = Path(sysconfig.get_config_var("DESTSHARED") or stdlib / "lib-dynload")
    files: dict[str, Path | bytes] = {}
    for folder in {stdlib, shared}:
        files.update(_tree(folder, str(folder)))
    site = Path(sysconfig.get_path("purelib"))
    for each in sorted({*_SITE, *site_packages}):
        for path in sorted(site.glob(each)):
            files.update(_tree(path, f"/admc/site/{path.name}", keep_tests=True))
    for each in (*PACKAGES, *folders):
        files.update(_tree(code / each, f"/admc/own/{each}", keep_tests=True))
    interpreter = Path(sys.executable).resolve()
    files[str(interpreter)] = interpreter
    tools, links = _iptables()
    files.update(tools)
    natives = [path for path in files.values() if isinstance(path, Path) and _is_native(path)]
    # Packages find libraries of their own beside them.
    own = site.resolve()
    files.update({at: path for at, path in libraries(natives).items() if not path.resolve().is_relative_to(own)})
    files.update(busybox().files)
    links.update({"/usr/bin/python": str(interpreter), "/usr/bin/python3": str(interpreter), **busybox().links})
    settings = {"PATH": "/usr/sbin:/usr/bin:/bin", "PYTHONPATH": "/admc/own:/admc/site", "PYTHONDONTWRITEBYTECODE": "1"}
    return Image(name, files, links, (), settings)


SERVER_USER: Final = "65532:65532"
SERVER_COMMAND: Final = ("python", "-m", "admc")
SERVER_PACKAGES: Final = ("iptables",)
"""Of Debian."""


def server(name: str, *, code: Path = ROOT) -> Image:
    """What the Dockerfile of the repository makes, with this Python: the same packages, user and entry point. A test
    compares the two. Raises `MissingError`."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    listed = requirements.needed(lock, requirements.server_requirements())
    parts = {part for each in listed if is_for_here(each) for part in _parts(each.name)}
    return replace(python(name, parts, code=code), command=SERVER_COMMAND, user=SERVER_USER)


def is_for_here(pinned: requirements.Pinned) -> bool:
    """Whether a requirement of the lock file is for this platform and this Python."""
    marker = Requirement(pinned.text.partition("\\")[0]).marker
    return marker is None or marker.evaluate()


def _parts(distribution: str) -> set[str]:
    """The files and folders of `site-packages` that a package has."""
    listed = metadata.files(distribution)
    assert listed is not None, f"{distribution} does not list its files"
    return {path.parts[0] for path in listed} - {"..", "__pycache__"}


_SITE: Final = (
    "grpc",
    "google",
    "yaml",
    "_yaml",
    "cryptography",
    "cffi",
    "_cffi_backend*",
    "jwt",
    "typing_extensions.py",
)
"""What `admc.pod` and what it imports need."""


def libraries(programs: Iterable[Path]) -> dict[str, Path | bytes]:
    """The shared libraries that programs load, at their own paths, and the loader."""
    found: dict[str, Path | bytes] = {}
    lines: list[str] = []
    paths = [str(path) for path in programs]
    for start in range(0, len(paths), 100):
        settings = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "LD_LIBRARY_PATH": str(_debian_libraries() or "")}
        done = subprocess.run(["ldd", *paths[start : start + 100]], env=settings, capture_output=True, text=True)
        lines += done.stdout.splitlines()
    for line in lines:
        match = re.search(r"(?:=> |^\s+)(/\S+) \(0x", line)
        if match is not None and Path(match[1]).is_file():
            path = Path(match[1])
            of_debian = _debian_libraries()
            inside = of_debian is not None and path.is_relative_to(of_debian)
            found[f"/usr/lib/{_triplet()}/{path.name}" if inside else str(path)] = path
    return found


def _iptables() -> tuple[dict[str, Path | bytes], dict[str, str]]:
    """Debian's iptables with its extensions, and the names by which they are called."""
    root = debian.find()
    extensions = debian.libraries(root) / "xtables"
    files: dict[str, Path | bytes] = {"/usr/sbin/xtables-nft-multi": root / "usr" / "sbin" / "xtables-nft-multi"}
    files.update(_tree(extensions, f"/usr/lib/{_triplet()}/xtables"))
    names = [f"{tool}{end}" for tool in ("iptables", "ip6tables") for end in ("", "-save", "-restore")]
    return files, {f"/usr/sbin/{name}": "xtables-nft-multi" for name in names}


def _debian_libraries() -> Path | None:
    try:
        return debian.libraries(debian.find())
    except MissingError:
        return None


def _triplet() -> str:
    return debian.libraries(debian.find()).name


def _tree(root: Path, at: str, *, keep_tests: bool = False) -> dict[str, Path | bytes]:
    """All files below a folder, or a file itself, by their paths in the image."""
    if root.is_file():
        return {at: root}
    found: dict[str, Path | bytes] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        left_out = "__pycache__" in name if keep_tests else _SKIPPED.search(name) is not None
        if path.is_file() and not left_out:
            found[f"{at}/{name}"] = path
    return found


def _is_native(path: Path) -> bool:
    if path.suffix in {".py", ".pyi", ".txt", ".json"}:
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _machine() -> str:
    return sysconfig.get_platform().rpartition("-")[2]


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
