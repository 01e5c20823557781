"""What survives a restart: the state in force, and for each service the snapshot that its proxies acknowledged last.

    FOLDER/state.json          what belongs together, by digest; replaced in one step
    FOLDER/objects/SHA256      the parts: inputs, plan, endpoints file, snapshots; never changed once written
    FOLDER/lock                held by the server that uses the folder
    FOLDER/transition.json     see `record`

So a server that comes back knows endpoints before it has read a file, and can tell what changed while it was away.
Whatever moment it is killed at, `state.json` names parts that were complete before it was written. A part is known by
its digest: one that a power cut or a hand has touched is not used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from admc.exits import CommandError, wrong_usage
from admc.files import read_bounded, system_message, write_whole
from admc.serve.file_watch import look
from admc.serve.state_dir.manifest import ManifestError, StoredSnapshot, from_json, parsed, serialised, to_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from admc.serve.file_watch import FileStat
    from xds_server.resources.snapshot import Snapshot

MAX_MANIFEST: Final = 64_000_000
MAX_OBJECT: Final = 256_000_000
MAX_TOTAL: Final = 4_000_000_000
"""Bytes of all snapshots together."""


class Recipe(NamedTuple):
    """All that a state is made from: with it the same state can be made again, without a solver."""

    main: str
    """The program's path among the inputs."""
    mode: str
    inputs: Mapping[str, bytes]
    plan: bytes
    endpoints: bytes | None


class StoredState(NamedTuple):
    """What was kept. `problems` are groups that cannot be used, and why."""

    recipe: Recipe | None
    groups: Mapping[str, Snapshot]
    problems: tuple[str, ...]


@dataclass(slots=True)
class StateDir:
    """The folder, for as long as this process holds its lock."""

    folder: Path
    _lock: IO[bytes]
    _recipe: dict[str, Any] | None = None
    _groups: dict[str, StoredSnapshot] = field(default_factory=dict)
    _sound: set[str] = field(default_factory=set)
    """Parts that this process has read or written."""
    _left: tuple[FileStat | None, ...] | None = None
    """What the folder looked like when this process had read it, or written to it."""
    _writing: threading.Lock = field(default_factory=threading.Lock)

    # ---- reading ----

    def load(self) -> StoredState | None:
        """What was kept; None where nothing was. Raises `CommandError` (ADM854) where it cannot be used."""
        self._left = self._looks()
        path = self.folder / "state.json"
        if not path.exists():
            return None
        try:
            content = read_bounded(path, MAX_MANIFEST, "the kept state", regular=True)
        except CommandError as error:
            raise _unusable(path, error.diagnostics[0].cause or "it cannot be read") from error
        try:
            return self._recalled(from_json(content))
        except ManifestError as error:
            raise _unusable(path, str(error)) from error

    def _recalled(self, document: dict[str, Any]) -> StoredState:
        recipe = None if document["state"] is None else self._recipe_of(document["state"])
        groups: dict[str, Snapshot] = {}
        problems: list[str] = []
        left = MAX_TOTAL
        for name, saved in sorted(document["groups"].items()):
            try:
                content = self._object(saved["object"])
                left -= len(content)
                if left < 0:
                    raise ManifestError(f"its snapshots have more than {MAX_TOTAL // 1_000_000_000} GB")
                snapshot = parsed(content, saved["elsewhere"])
            except ManifestError as error:
                problems.append(f"`{name}`: {error}")
                continue
            groups[name] = snapshot
            self._groups[name] = StoredSnapshot(snapshot.version, saved["object"], tuple(saved["elsewhere"]))
        self._recipe = document["state"]
        return StoredState(recipe, groups, tuple(problems))

    def _recipe_of(self, state: dict[str, Any]) -> Recipe:
        endpoints = state["endpoints"]
        return Recipe(
            state["main"],
            state["mode"],
            {path: self._object(digest) for path, digest in state["inputs"].items()},
            self._object(state["plan"]),
            None if endpoints is None else self._object(endpoints),
        )

    def _object(self, digest: str) -> bytes:
        try:
            content = read_bounded(
                self.folder / "objects" / digest, MAX_OBJECT, "a part of the kept state", regular=True
            )
        except CommandError as error:
            raise ManifestError(f"a part of it cannot be read: {error.diagnostics[0].cause}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise ManifestError("a part of it is not what was kept")
        self._sound.add(digest)
        return content

    # ---- writing ----

    def renew(self) -> bool:
        """Whether somebody has removed, replaced or touched what was kept. Then the folder is there again, this
        process's alone, and the next `save` writes everything. Raises `CommandError` where that cannot be."""
        with self._writing:
            if self._left is None or self._looks() == self._left:
                return False
            if self._is_own():
                _made(self.folder)  # not locked again: that is refused to whoever has the lock
            else:
                lock = _locked(self.folder)
                self._lock.close()
                self._lock = lock
            self._recipe, self._groups, self._left = None, {}, None
            self._sound.clear()
            return True

    def _looks(self) -> tuple[FileStat | None, ...]:
        # One inside the other would change with every file of somebody else's in it: so not the folder itself.
        return tuple(look(self.folder / name) for name in ("lock", "objects", "state.json"))

    def _is_own(self) -> bool:
        """Whether the lock is that of the folder that is there now."""
        there, own = look(self.folder / "lock"), os.fstat(self._lock.fileno())
        return there is not None and (there.device, there.inode) == (own.st_dev, own.st_ino)

    def save_as_owner(self, recipe: Recipe | None, groups: Mapping[str, Snapshot]) -> None:
        """The same as `save`, before something is done that a restart has to know of. Raises `CommandError` also where
        the folder is not this process's any more: what another one keeps there is left alone."""
        with self._writing:
            if not self._is_own() or not (self.folder / "objects").is_dir():
                raise _cannot_keep(self.folder, "somebody has removed or replaced it")
        self.save(recipe, groups)

    def save(self, recipe: Recipe | None, groups: Mapping[str, Snapshot]) -> bool:
        """Keep these instead; without a recipe, the state that is kept stays. False where nothing is new.

        Raises `CommandError` where the folder takes nothing: what was kept before is still there.
        """
        with self._writing:
            try:
                return self._save(recipe, groups)
            except CommandError:
                # What an attempt has left among the parts is nobody else's doing.
                now = self._looks()
                if self._left is not None and now[1] is not None:
                    self._left = (self._left[0], now[1], self._left[2])
                raise

    def _save(self, recipe: Recipe | None, groups: Mapping[str, Snapshot]) -> bool:
        state = self._recipe if recipe is None else self._put_recipe(recipe)
        saved = {name: self._put_group(name, snapshot) for name, snapshot in groups.items()}
        if state == self._recipe and saved == self._groups:
            return False
        try:
            write_whole(self.folder / "state.json", to_json(state, saved))
        except CommandError as error:
            raise _cannot_keep(self.folder, error.diagnostics[0].cause) from error
        self._recipe, self._groups = state, saved
        try:
            self._sweep()
        finally:
            self._left = self._looks()
        return True

    def close(self) -> None:
        self._lock.close()

    def _put_recipe(self, recipe: Recipe) -> dict[str, Any]:
        return {
            "main": recipe.main,
            "mode": recipe.mode,
            "inputs": {path: self._put(content) for path, content in sorted(recipe.inputs.items())},
            "plan": self._put(recipe.plan),
            "endpoints": None if recipe.endpoints is None else self._put(recipe.endpoints),
        }

    def _put_group(self, name: str, snapshot: Snapshot) -> StoredSnapshot:
        before = self._groups.get(name)
        elsewhere = tuple(sorted(snapshot.elsewhere))
        if before is not None and (before.version, before.elsewhere) == (snapshot.version, elsewhere):
            return before
        return StoredSnapshot(snapshot.version, self._put(serialised(snapshot)), elsewhere)

    def _put(self, content: bytes) -> str:
        """A part, whole under its name or not there at all. Not flushed to the disk: a process that dies loses
        nothing, and after a power cut the digest tells."""
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / "objects" / digest
        try:
            # One that an earlier server left may have been touched since.
            if digest not in self._sound:
                temporary = path.with_name(f"{digest}.{os.getpid()}.tmp")
                try:
                    temporary.write_bytes(content)
                    temporary.replace(path)
                except OSError:
                    temporary.unlink(missing_ok=True)  # it may fill what is left of the disk
                    raise
                self._sound.add(digest)
        except OSError as error:
            raise _cannot_keep(self.folder, system_message(error)) from error
        return digest

    def _sweep(self) -> None:
        """Remove what `state.json` does not name any more, left-overs of a killed server among them."""
        state = self._recipe or {"inputs": {}, "plan": "", "endpoints": ""}
        wanted = {item.digest for item in self._groups.values()}
        wanted |= {*state["inputs"].values(), state["plan"], state["endpoints"]}
        try:
            for path in (self.folder / "objects").iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)
                    self._sound.discard(path.name)
        except OSError as error:
            raise _cannot_keep(self.folder, system_message(error)) from error


def open_state_dir(folder: Path) -> StateDir:
    """The folder, made if need be, for this process alone. Raises `CommandError` (ADM854)."""
    return StateDir(folder, _locked(folder))


def _made(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "objects").mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise _cannot_keep(folder, "it is no folder") from error
    except OSError as error:
        raise _cannot_keep(folder, system_message(error)) from error


def _locked(folder: Path) -> IO[bytes]:
    _made(folder)
    try:
        lock = (folder / "lock").open("ab")
    except OSError as error:
        raise _cannot_keep(folder, system_message(error)) from error
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
        raise _cannot_keep(folder, system_message(error)) from error
    return lock


def _clear(folder: Path) -> None:
    """Remove what servers that were killed have left half written: a full disk may be full of it."""
    for left in (*folder.glob(".*.json.*.tmp"), *(folder / "objects").glob("*.tmp")):
        left.unlink(missing_ok=True)


def _unusable(path: Path, cause: str) -> CommandError:
    return wrong_usage(
        "ADM854",
        f"the kept state `{path}` cannot be used",
        cause=cause,
        hint="the server goes on without it, and keeps a new one once proxies have acknowledged what it compiles",
    )


def _cannot_keep(folder: Path, cause: str | None) -> CommandError:
    return wrong_usage(
        "ADM854",
        f"cannot keep the state in `{folder}`",
        cause=cause,
        hint="give a folder that admc may write to; what was kept there before is as it was",
    )
