"""Stores the state that survives a restart in a folder: the state of the rollout, the plans that proxies may have, the
snapshot that the proxies of each service acknowledged last, and the resources that older connections may use.

    FOLDER/state.json          the manifest, which names its objects by digest; replaced in one step
    FOLDER/objects/SHA256      the objects: inputs, plans, endpoints files, snapshots; never changed once written
    FOLDER/lock                held by the server that uses the folder
    FOLDER/rollout             exists while proxies may have more than one plan: then the server does not replace a
                               manifest that it cannot use

Objects are complete before the manifest that names them is written, so the server may be killed at any time. An object
that a power cut or a person has altered does not have its digest, and is not used.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Final

from admc.base.exits import CommandError, wrong_usage
from admc.base.files import has_content, read_bounded, system_message, write_whole
from admc.serve.file_watch import look
from admc.serve.storage.contents import MAX_MANIFEST, MAX_OBJECT, Contents
from admc.serve.storage.manifest import Manifest, ManifestError, OldManifestError, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from admc.serve.file_watch import FileStat
    from admc.serve.storage.position import Position, StoredState
    from xds_server.resources.snapshot import Snapshot

UNDER_WAY: Final = "rollout"


@dataclass(slots=True)
class StateDir:
    """The folder, for as long as this process holds its lock."""

    folder: Path
    _lock: IO[bytes]
    _manifest: Manifest = field(default_factory=lambda: Manifest(None, {}, {}))
    """The manifest in the folder."""
    _contents: Contents = field(init=False)
    _sound: set[str] = field(default_factory=set)
    """Objects that this process has read or written."""
    _swept: bool = False
    """Whether the manifest refers to every object in the folder: no process was stopped in the middle of a write."""
    _left: tuple[FileStat | None, ...] | None = None
    """The stats of the files as this process has read or written them. Empty if another process had changed a file
    before its stat was taken; None if nothing has been written since the folder was made."""
    _is_old: bool = False
    """The manifest has a version that this admc no longer reads."""
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._contents = Contents(self)

    @property
    def name(self) -> str:
        return str(self.folder)

    @property
    def kind(self) -> str:
        return "the folder"

    # ---- reading ----

    def load(self) -> StoredState | None:
        """Return the stored state; None if there is none. Raises `CommandError` (ADM854) if the state cannot be used;
        `may_begin_anew` then tells whether the server may replace it."""
        self._left = self._stats()
        path = self.folder / "state.json"
        if not path.exists():
            return None
        try:
            content = read_bounded(path, MAX_MANIFEST, "the kept state", regular=True)
        except CommandError as error:
            raise self._unusable(error.diagnostics[0].cause or "it cannot be read") from error
        try:
            return self._loaded(from_json(content))
        except ManifestError as error:
            self._is_old = isinstance(error, OldManifestError)
            raise self._unusable(str(error)) from error

    @property
    def may_begin_anew(self) -> bool:
        """Whether a manifest that cannot be used may be replaced. It may, if proxies have only one plan as far as is
        known. The content of a manifest of an old version is not known, so it may not."""
        return not self._is_old and not (self.folder / UNDER_WAY).exists()

    def _loaded(self, manifest: Manifest) -> StoredState:
        stored_state = self._contents.load(manifest)
        self._manifest = manifest
        return stored_state

    def get(self, digest: str) -> bytes:
        """Return an object. Raises `ManifestError` if its content is not the stored one."""
        try:
            content = read_bounded(
                self.folder / "objects" / digest, MAX_OBJECT, "a part of the kept state", regular=True
            )
        except CommandError as error:
            raise ManifestError(f"a part of it cannot be read: {error.diagnostics[0].cause}") from error
        if hashlib.sha256(content).hexdigest() != digest:
            raise ManifestError("a part of it is not what admc stored")
        self._sound.add(digest)
        return content

    # ---- writing ----

    def renew(self) -> bool:
        """Return whether the stored files were removed, replaced or changed from outside. Afterwards the folder is
        there and
        locked by this process, and the next `save` writes all files. Raises `CommandError` if that is impossible."""
        with self._writing:
            if self._is_there() and (self._left is None or self._stats() == self._left):
                return False
            if self._holds_lock():
                _made(self.folder)  # not locked again: the process that has the lock may not lock it again
            else:
                lock = _locked(self.folder)
                self._lock.close()
                self._lock = lock
            self._manifest, self._left = Manifest(None, {}, {}), None
            self._contents.clear()
            self._sound.clear()
            return True

    def _stats(self) -> tuple[FileStat | None, ...]:
        # Not the folder itself: other files in it would change it.
        return tuple(look(self.folder / name) for name in ("lock", "objects", "state.json"))

    def _holds_lock(self) -> bool:
        """Whether this process holds the lock of the present folder."""
        there, own = look(self.folder / "lock"), os.fstat(self._lock.fileno())
        return there is not None and (there.device, there.inode) == (own.st_dev, own.st_ino)

    def _is_there(self) -> bool:
        """Whether the folder is there, and this process holds its lock. It may be removed while this process writes."""
        return self._holds_lock() and (self.folder / "objects").is_dir()

    def save_as_owner(
        self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str] = ()
    ) -> None:
        """Save as `save` does, before proxies receive a label that a restarted server has to know. Also raises
        `CommandError` if another process owns the folder by now; its files stay unchanged."""
        with self._writing:
            if not self._is_there():
                raise _not_writable(self.folder, "it was removed or replaced")
        self.save(position, groups, refusing)

    def save(self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str] = ()) -> bool:
        """Replace the stored state. Without a position, the stored position stays. Returns false if nothing differs.

        Raises `CommandError` if the folder cannot be written; then the earlier state is still stored, or the new one if
        only the marker of a rollout or unused objects could not be removed.
        """
        with self._writing:
            try:
                return self._save(position, groups)
            except CommandError:
                # What an attempt has left among the objects is this process's own doing; a missing object is not.
                now = self._stats()
                if self._left and self._has_objects():
                    self._left = (self._left[0], now[1], self._left[2])
                raise

    def _save(self, position: Position | None, groups: Mapping[str, Snapshot]) -> bool:
        old, swept, self._swept = self._manifest, self._swept, False
        manifest = self._contents.store(old, position, groups)
        if manifest == old and swept:
            self._swept = True
            return False
        content = to_json(manifest)
        try:
            if manifest.under_way:
                write_whole(self.folder / UNDER_WAY, b"")
            # With the secret of the markers another program could pass for an ADM: it is for the folder's owner alone.
            write_whole(self.folder / "state.json", content, private=True)
        except CommandError as error:
            raise _not_writable(self.folder, error.diagnostics[0].cause) from error
        if not manifest.under_way:
            try:
                (self.folder / UNDER_WAY).unlink(missing_ok=True)
            except OSError as error:
                raise _not_removed(self.folder, error) from error
        self._manifest = manifest
        try:
            self._remove_unused_objects()
            self._swept = True
        finally:
            # The stats come before the check: whatever changes after it differs from them.
            left = self._stats()
            self._left = left if has_content(self.folder / "state.json", content) and self._has_objects() else ()
        return manifest != old

    def _has_objects(self) -> bool:
        """Whether the folder has all objects that the manifest names."""
        try:
            return self._manifest.objects <= {path.name for path in (self.folder / "objects").iterdir()}
        except OSError:
            return False

    def close(self) -> None:
        self._lock.close()

    def put(self, content: bytes) -> str:
        """Store an object, which appears whole under its name or not at all. It is not flushed to the disk: nothing is
        lost if the process dies, and after a power cut the digest shows the damage."""
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
            raise _not_writable(self.folder, system_message(error)) from error
        return digest

    def _remove_unused_objects(self) -> None:
        """Remove the objects that the manifest no longer names, and temporary files of killed servers."""
        wanted = self._manifest.objects
        self._contents.forget_all_but(wanted)
        try:
            for path in (self.folder / "objects").iterdir():
                if path.name not in wanted:
                    path.unlink(missing_ok=True)
                    self._sound.discard(path.name)
        except OSError as error:
            raise _not_removed(self.folder, error) from error

    def _unusable(self, cause: str) -> CommandError:
        hint = "the server goes on without it, and keeps a new one once proxies have acknowledged what it compiles"
        if self._is_old:
            hint = "let an earlier release store it again, or remove the folder once each proxy has what one plan gives"
        elif not self.may_begin_anew:
            hint = "proxies may have more than one plan: remove the folder once each has the configuration of one"
        return wrong_usage(
            "ADM854", f"the stored state `{self.folder / 'state.json'}` cannot be used", cause=cause, hint=hint
        )


def open_state_dir(folder: Path) -> StateDir:
    """Make the folder if it is absent, and lock it for this process. Raises `CommandError` (ADM854)."""
    return StateDir(folder, _locked(folder))


def _made(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "objects").mkdir(mode=0o700, exist_ok=True)
    except FileExistsError as error:
        raise _not_writable(folder, "it is not a folder") from error
    except OSError as error:
        raise _not_writable(folder, system_message(error)) from error


def _locked(folder: Path) -> IO[bytes]:
    _made(folder)
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
    marker = folder.glob(f".{UNDER_WAY}.*.tmp")
    for left in (*folder.glob(".*.json.*.tmp"), *marker, *(folder / "objects").glob("*.tmp")):
        left.unlink(missing_ok=True)


def _not_writable(folder: Path, cause: str | None) -> CommandError:
    return wrong_usage(
        "ADM854",
        f"cannot store the state in `{folder}`",
        cause=cause,
        hint="give a folder that admc may write to; the previous content of this one is unchanged",
    )


def _not_removed(folder: Path, error: OSError) -> CommandError:
    return wrong_usage(
        "ADM854",
        f"cannot remove what the state in `{folder}` no longer needs",
        cause=system_message(error),
        hint="give a folder in which admc may remove files; `state.json` in this one is the new one",
    )
