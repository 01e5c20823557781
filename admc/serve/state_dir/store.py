"""The state directory (`--state`): what survives a restart of the server.

    DIR/state.json          names the parts of the stored state by digest; replaced atomically
    DIR/objects/SHA256      the parts: inputs, plan, endpoints file, snapshots; never changed once written
    DIR/lock                locked by the server that uses the directory
    DIR/transition.json     see `rollout_record`

The stored state is the active one, and for each service the last snapshot that its proxies acknowledged. A restarted
server can serve it before it reads any other file, and can tell what has changed since. If the server is killed at any
moment, `state.json` still names only complete parts. A part that was changed afterwards no longer fits its digest, and
is not used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final, NamedTuple

from admc.exits import CommandError, wrong_usage
from admc.files import read_bounded, system_message, write_whole
from admc.serve.file_watch import look
from admc.serve.state_dir.manifest import (
    Manifest,
    ManifestError,
    SnapshotRow,
    StateRow,
    from_json,
    snapshot_from_bytes,
    snapshot_to_bytes,
    to_json,
)
from emitters.envoy import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from admc.serve.file_watch import FileStat
    from xds_server.resources.snapshot import Snapshot

MAX_MANIFEST: Final = 64_000_000
MAX_OBJECT: Final = 256_000_000
MAX_TOTAL: Final = 4_000_000_000
"""Total bytes of all snapshots."""


class Recipe(NamedTuple):
    """The inputs of a state: the same state can be built from them again, without a solver."""

    main: str
    """The path of the program among the inputs."""
    mode: str
    inputs: Mapping[str, bytes]
    plan: bytes
    endpoints: bytes | None


class StoredState(NamedTuple):
    """The content of the directory. `problems` names the snapshots that cannot be used, with the reasons."""

    recipe: Recipe | None
    groups: Mapping[str, Snapshot]
    problems: tuple[str, ...]


class _StoredSnapshot(NamedTuple):
    version: str
    row: SnapshotRow


@dataclass(slots=True)
class StateDir:
    """The directory, for as long as this process holds its lock."""

    folder: Path
    _lock: IO[bytes]
    _state: StateRow | None = None
    _groups: dict[str, _StoredSnapshot] = field(default_factory=dict)
    _verified: set[str] = field(default_factory=set)
    """Digests of the objects that this process has read or written."""
    _expected: tuple[FileStat | None, ...] | None = None
    """The stats of the directory's files after this process last read or wrote them."""
    _write_lock: threading.Lock = field(default_factory=threading.Lock)

    # ---- reading ----

    def load(self) -> StoredState | None:
        """The stored state, if there is one. Raises `CommandError` (ADM854) if it cannot be used."""
        self._expected = self._stats()
        path = self.folder / "state.json"
        if not path.exists():
            return None
        try:
            content = read_bounded(path, MAX_MANIFEST, "the stored state", regular=True)
        except CommandError as error:
            raise _unusable(path, error.diagnostics[0].cause or "it cannot be read") from error
        try:
            return self._loaded(from_json(content))
        except ManifestError as error:
            raise _unusable(path, str(error)) from error

    def _loaded(self, manifest: Manifest) -> StoredState:
        recipe = None if manifest.state is None else self._recipe_of(manifest.state)
        groups: dict[str, Snapshot] = {}
        problems: list[str] = []
        bytes_left = MAX_TOTAL
        for name, row in sorted(manifest.groups.items()):
            try:
                content = self._object(row.object)
                bytes_left -= len(content)
                if bytes_left < 0:
                    raise ManifestError(f"the snapshots have more than {MAX_TOTAL // 1_000_000_000} GB")
                snapshot = snapshot_from_bytes(content, row)
            except ManifestError as error:
                problems.append(f"`{name}`: {error}")
                continue
            groups[name] = snapshot
            self._groups[name] = _StoredSnapshot(snapshot.version, row)
        self._state = manifest.state
        return StoredState(recipe, groups, tuple(problems))

    def _recipe_of(self, state: StateRow) -> Recipe:
        return Recipe(
            state.main,
            state.mode.value,
            {path: self._object(digest) for path, digest in state.inputs.items()},
            self._object(state.plan),
            None if state.endpoints is None else self._object(state.endpoints),
        )

    def _object(self, digest: str) -> bytes:
        try:
            content = read_bounded(
                self.folder / "objects" / digest, MAX_OBJECT, "a part of the stored state", regular=True
            )
        except CommandError as error:
            raise ManifestError(f"a part of it cannot be read: {error.diagnostics[0].cause}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise ManifestError("a part of it is not what admc stored")
        self._verified.add(digest)
        return content

    # ---- writing ----

    def renew(self) -> bool:
        """Restore the directory if its files were removed, replaced or changed from outside; whether they were.

        Then this process holds the lock of the new directory, and the next `save` writes everything. Raises
        `CommandError` if that is impossible.
        """
        with self._write_lock:
            if self._expected is None or self._stats() == self._expected:
                return False
            if self._holds_lock():
                _make_folders(self.folder)  # a process that holds the lock cannot lock again
            else:
                lock = _locked(self.folder)
                self._lock.close()
                self._lock = lock
            self._state, self._groups, self._expected = None, {}, None
            self._verified.clear()
            return True

    def _stats(self) -> tuple[FileStat | None, ...]:
        # Not of the directory itself: its stat also changes with files in it that belong to other programs.
        return tuple(look(self.folder / name) for name in ("lock", "objects", "state.json"))

    def _holds_lock(self) -> bool:
        """Whether the lock file in the directory is the one that this process has locked."""
        found, own = look(self.folder / "lock"), os.fstat(self._lock.fileno())
        return found is not None and (found.device, found.inode) == (own.st_dev, own.st_ino)

    def save_as_owner(self, recipe: Recipe | None, groups: Mapping[str, Snapshot]) -> None:
        """The same as `save`, but never into the directory of another server. For a state that has to be stored before
        it is published. Raises `CommandError` also if the directory was removed or replaced."""
        with self._write_lock:
            if not self._holds_lock() or not (self.folder / "objects").is_dir():
                raise _not_writable(self.folder, "it was removed or replaced")
        self.save(recipe, groups)

    def save(self, recipe: Recipe | None, groups: Mapping[str, Snapshot]) -> bool:
        """Store these; without a recipe the stored one stays. False if nothing has changed.

        Raises `CommandError` if the directory is not writable. Then it keeps its previous content.
        """
        with self._write_lock:
            try:
                return self._save(recipe, groups)
            except CommandError:
                # The failed attempt may have changed `objects`; that is no change from outside.
                stats = self._stats()
                if self._expected is not None and stats[1] is not None:
                    self._expected = (self._expected[0], stats[1], self._expected[2])
                raise

    def _save(self, recipe: Recipe | None, groups: Mapping[str, Snapshot]) -> bool:
        state = self._state if recipe is None else self._put_recipe(recipe)
        stored = {name: self._put_snapshot(name, snapshot) for name, snapshot in groups.items()}
        if state == self._state and stored == self._groups:
            return False
        content = to_json(state, {name: item.row for name, item in stored.items()})
        try:
            write_whole(self.folder / "state.json", content)
        except CommandError as error:
            raise _not_writable(self.folder, error.diagnostics[0].cause) from error
        self._state, self._groups = state, stored
        try:
            self._remove_unused_objects()
        finally:
            self._expected = self._stats()
        return True

    def close(self) -> None:
        self._lock.close()

    def _put_recipe(self, recipe: Recipe) -> StateRow:
        return StateRow(
            recipe.main,
            Mode(recipe.mode),
            {path: self._put(content) for path, content in sorted(recipe.inputs.items())},
            self._put(recipe.plan),
            None if recipe.endpoints is None else self._put(recipe.endpoints),
        )

    def _put_snapshot(self, name: str, snapshot: Snapshot) -> _StoredSnapshot:
        before = self._groups.get(name)
        elsewhere = tuple(sorted(snapshot.elsewhere))
        if before is not None and (before.version, before.row.elsewhere) == (snapshot.version, elsewhere):
            return before
        return _StoredSnapshot(snapshot.version, SnapshotRow(self._put(snapshot_to_bytes(snapshot)), elsewhere))

    def _put(self, content: bytes) -> str:
        """Write an object, whole or not at all; returns its digest.

        It is not flushed to the disk. A process that is killed loses nothing, and after a power cut a damaged object
        does not fit its digest.
        """
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / "objects" / digest
        try:
            # An object that an earlier server wrote may have been changed since.
            if digest not in self._verified:
                temporary = path.with_name(f"{digest}.{os.getpid()}.tmp")
                try:
                    temporary.write_bytes(content)
                    temporary.replace(path)
                except OSError:
                    temporary.unlink(missing_ok=True)  # it may take the last space of a full disk
                    raise
                self._verified.add(digest)
        except OSError as error:
            raise _not_writable(self.folder, system_message(error)) from error
        return digest

    def _remove_unused_objects(self) -> None:
        """Remove the objects that `state.json` no longer names, and temporary files of killed servers."""
        wanted = {item.row.object for item in self._groups.values()}
        if self._state is not None:
            wanted |= self._state.objects
        try:
            for path in (self.folder / "objects").iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)
                    self._verified.discard(path.name)
        except OSError as error:
            raise _not_writable(self.folder, system_message(error)) from error


def open_state_dir(folder: Path) -> StateDir:
    """Lock the directory for this process; makes it if there is none. Raises `CommandError` (ADM854)."""
    return StateDir(folder, _locked(folder))


def _make_folders(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "objects").mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise _not_writable(folder, "it is not a folder") from error
    except OSError as error:
        raise _not_writable(folder, system_message(error)) from error


def _locked(folder: Path) -> IO[bytes]:
    _make_folders(folder)
    try:
        lock = (folder / "lock").open("ab")
    except OSError as error:
        raise _not_writable(folder, system_message(error)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise wrong_usage(
            "ADM854",
            f"another server keeps its state in `{folder}`",
            hint="give each server a folder of its own",
        ) from error
    try:
        _clear(folder)
    except OSError as error:
        lock.close()
        raise _not_writable(folder, system_message(error)) from error
    return lock


def _clear(folder: Path) -> None:
    """Remove the temporary files of killed servers, which may fill the disk."""
    for left in (*folder.glob(".*.json.*.tmp"), *(folder / "objects").glob("*.tmp")):
        left.unlink(missing_ok=True)


def _unusable(path: Path, cause: str) -> CommandError:
    return wrong_usage(
        "ADM854",
        f"the stored state `{path}` cannot be used",
        cause=cause,
        hint="the server continues without it, and stores a new one once proxies have acknowledged what it compiles",
    )


def _not_writable(folder: Path, cause: str | None) -> CommandError:
    return wrong_usage(
        "ADM854",
        f"cannot store the state in `{folder}`",
        cause=cause,
        hint="give a folder that admc may write to; the previous content of this one is unchanged",
    )
