"""The kept state in Secrets, as the `Storage` of a server that follows a cluster.

It differs from the folder of `--state`:

- An acknowledged snapshot is kept only if some proxy of its service may have another label than the published one, or
  refuses something. The proxies of all other services have acknowledged the snapshot of the stored plan, and the next
  server makes that again. To keep each snapshot would be a write to the database of the whole cluster.
- Addresses are not kept: they change all the time, and the next server reads them in the cluster before it serves.
- Acknowledgements are stored at intervals. Before a step everything is stored at once, as in the folder.

The Secret that names the parts is replaced only with the version that this replica read or wrote last. A replica that
becomes active claims the Secret first, with a write of its own. From then on a replica that was active before cannot
store a step, so it cannot publish one, whatever it believes.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from admc.base.exits import CommandError, wrong_usage
from admc.kubernetes.cluster.api.errors import ApiError
from admc.kubernetes.cluster.storage.objects import PackedObjects
from admc.kubernetes.cluster.storage.record import (
    INDEX,
    PART,
    Index,
    check,
    content_of,
    index_from_json,
    index_to_json,
    uid_of,
    version_of,
)
from admc.kubernetes.cluster.storage.secrets import Bridge, NotHolderError
from admc.kubernetes.cluster.storage.state_secret import StateSecret, SupersededError
from admc.serve.storage.contents import Contents
from admc.serve.storage.manifest import Manifest, ManifestError, from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from admc.kubernetes.cluster.storage.record import Document, Names, Record
    from admc.kubernetes.cluster.storage.secrets import Secrets
    from admc.serve.storage.manifest import SavedSnapshot
    from admc.serve.storage.position import Position, StoredState
    from xds_server.resources.snapshot import Snapshot

LOG: Final = logging.getLogger("admc.cluster")

SPACING_SECONDS: Final = 5.0
"""The time between two writes of acknowledgements, without a step."""
LOAD_SECONDS: Final = 30.0
"""How long a replica that becomes active repeats its request while the API server does not answer."""
LOAD_PAUSE_SECONDS: Final = 0.5
ATTEMPTS: Final = 5
"""Attempts to read parts while another replica removes some."""
EMPTY: Final = Manifest(None, {}, {})


class Peeked(NamedTuple):
    """The state as a replica that stands by has read it."""

    version: str
    state: StoredState | None


class _DamagedPartsError(ManifestError):
    """A part is missing or damaged. If another replica writes, it may have removed the part."""


class SecretStorage:
    """The Secrets of one installation, for one replica. Methods block, except `observed`."""

    def __init__(
        self,
        secrets: Secrets,
        names: Names,
        writer: str,
        superseded: Callable[[str], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Call it on the event loop of `secrets`. `writer` names this process and no other. `superseded` is called in a
        thread once another replica has written; from then on this process must publish nothing."""
        self._secrets, self._names = secrets, names
        self._secret = StateSecret(secrets, names, writer)
        self._wait = Bridge().wait
        self._superseded, self._clock = superseded, clock
        self._objects = PackedObjects()
        self._contents = Contents(self._objects)
        self._manifest = EMPTY
        self._parsed: dict[SavedSnapshot, Snapshot] = {}
        """The snapshots of the state that was read last, until `load`."""
        self._position: Position | None = None
        self._index: Index | None = None
        """The index that this replica has written, or read as the active one."""
        self._is_marked: bool | None = None
        """Whether the marker of a rollout exists; None if unknown."""
        self._there: dict[str, str | None] | None = None
        """The uids of the state's Secrets by name, as far as they are known; None before they are listed."""
        self._changed = False
        """A Secret was removed or changed from outside."""
        self._saved_at = -math.inf
        self._turn = threading.Lock()

    @property
    def name(self) -> str:
        return f"{self._names.namespace}/{self._names.state}"

    @property
    def kind(self) -> str:
        return "the Secret"

    @property
    def may_begin_anew(self) -> bool:
        return self._is_marked is False

    def close(self) -> None:
        """Nothing is open: the connection belongs to the caller."""

    # ---- reading ----

    def load(self) -> StoredState | None:
        """Claim the state for this replica, and read it. Raises `CommandError` (ADM854)."""
        with self._turn:
            until = self._clock() + LOAD_SECONDS
            while True:
                try:
                    state = self._read(self._wait(self._secret.claim()))
                except (ApiError, NotHolderError) as error:
                    if self._clock() >= until:
                        raise self._unreadable(_words(error)) from error
                    time.sleep(LOAD_PAUSE_SECONDS)
                except ManifestError as error:
                    self._objects.clear()
                    self._contents.clear()
                    raise self._unusable(str(error)) from error
                else:
                    self._objects.release()
                    self._parsed, self._changed = {}, False
                    return state

    def peek(self, version: str) -> Peeked | None:
        """Read the state without a claim, and verify its parts; None if it still has this version. `load` need not read
        these parts again. Raises `CommandError` (ADM854)."""
        with self._turn:
            for attempt in range(ATTEMPTS):
                try:
                    secret = self._wait(self._secret.get())
                    now = "" if secret is None else version_of(secret)
                    if now == version:
                        return None
                    return Peeked(now, self._read(secret))
                except _DamagedPartsError as error:
                    # The active replica may have removed parts meanwhile that its newer state does not name.
                    version = now
                    if attempt == ATTEMPTS - 1:
                        raise self._unusable(str(error)) from error
                except ManifestError as error:
                    raise self._unusable(str(error)) from error
                except ApiError as error:
                    raise self._unreadable(str(error)) from error
            return None

    def _read(self, secret: Document | None) -> StoredState | None:
        """Raises `ManifestError` and `ApiError`."""
        self._manifest, self._position, self._index, self._is_marked = EMPTY, None, None, None
        self._is_marked = self._wait(self._secrets.get(self._names.under_way)) is not None
        content = content_of(secret, INDEX)
        if content is None:
            if secret is not None and secret.get("data"):
                raise ManifestError(f"it lacks `{INDEX}`")
            if self._is_marked:
                raise ManifestError("there is none, though a rollout was under way")
            return None
        index = index_from_json(content)
        self._objects.read(index.packs, self._parts)
        try:
            manifest = from_json(self._objects.get(index.manifest))
            state = self._contents.load(manifest, self._parsed)
        except ManifestError as error:
            raise (_DamagedPartsError(str(error)) if self._objects.is_damaged else error) from error
        self._position, self._index = state.position, index
        self._parsed = _by_object(manifest, state)
        state = state._replace(is_reduced=True)
        if not self._objects.is_damaged:
            self._manifest = manifest  # otherwise the next `save` stores the missing objects again
        return state

    def _parts(self, digests: Collection[str]) -> dict[str, bytes]:
        names = {self._names.part(digest): digest for digest in digests}
        secrets = self._wait(self._secrets.get_all(tuple(names)))
        return {names[name]: content_of(secret, PART) or b"" for name, secret in secrets.items()}

    # ---- writing ----

    def save(
        self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str] = frozenset()
    ) -> bool:
        """Keep this state in place of the last one, unless the last write was a moment ago. Returns whether anything
        was written. Raises `CommandError`; the last state then stays."""
        with self._turn:
            if self._clock() < self._saved_at + SPACING_SECONDS:
                return False
            return self._save(position, groups, refusing)

    def save_as_owner(
        self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str] = frozenset()
    ) -> None:
        """Keep this state at once. Raises `CommandError`."""
        with self._turn:
            self._save(position, groups, refusing)

    def renew(self) -> bool:
        """Return whether a Secret was removed or changed from outside; the next `save` then writes all of them."""
        with self._turn:
            if not self._changed:
                return False
            self._changed, self._there, self._is_marked = False, None, None
            self._manifest, self._saved_at = EMPTY, -math.inf
            self._secret.forget()
            self._objects.clear()
            self._contents.clear()
            return True

    def observed(self, name: str, record: Record | None) -> None:
        """Note the present record of a Secret; None if it was removed."""
        index = self._index
        if index is None:
            return
        digest = self._names.digest(name)
        if digest is not None:
            self._changed |= digest in index.parts and (record is None or record.digest != digest)
        elif name == self._names.state:
            self._changed |= record is None or not self._secret.is_own(record)

    def _save(self, position: Position | None, groups: Mapping[str, Snapshot], refusing: Collection[str]) -> bool:
        position = position or self._position
        if position is None:
            return False
        needed = position.unsettled | frozenset(refusing)
        plans = {name: recipe._replace(endpoints=None) for name, recipe in position.plans.items()}
        kept = {name: snapshot for name, snapshot in groups.items() if name in needed}
        try:
            manifest = self._stored(position._replace(plans=plans), kept)
            new = manifest != self._manifest
            if new:
                self._write(manifest)
            self._position, self._saved_at = position, self._clock()
            self._tidy()
        except SupersededError as error:
            self._superseded(str(error))
            raise self._not_stored(str(error)) from error
        except (ApiError, NotHolderError, ManifestError) as error:
            raise self._not_stored(_words(error)) from error
        return new

    def _stored(self, position: Position, groups: Mapping[str, Snapshot]) -> Manifest:
        """Return the manifest; its new objects wait for the next pack."""
        manifest = self._contents.store(self._manifest, position, groups)
        if manifest != self._manifest and self._objects.is_wasteful(manifest.objects):
            self._objects.clear()
            self._contents.clear()
            manifest = self._contents.store(EMPTY, position, groups)
        return manifest

    def _write(self, manifest: Manifest) -> None:
        name = self._objects.put(to_json(manifest))
        wanted = manifest.objects | {name}
        pack, parts = self._objects.pack_new(wanted)
        index = Index(1, name, (*sorted(self._objects.packs(wanted)), pack))
        check(index)
        if manifest.under_way:
            self._mark()
        self._put_parts(parts)
        self._wait(self._secret.replace(index_to_json(index)))
        self._manifest, self._index = manifest, index
        self._objects.stored(pack, wanted)
        self._contents.forget_all_but(wanted)

    def _mark(self) -> None:
        if self._is_marked:
            return
        self._create(self._names.secret(self._names.under_way, {}))
        self._is_marked = True

    def _put_parts(self, parts: Mapping[str, bytes]) -> None:
        secrets = {self._names.part(digest): {PART: content} for digest, content in parts.items()}
        documents = {name: self._names.secret(name, data, immutable=True) for name, data in secrets.items()}
        if self._there is not None:
            self._there |= dict.fromkeys(documents)
        there = self._wait(self._secrets.create_all(tuple(documents.values())))
        for name, stored in self._wait(self._secrets.get_all(there)).items():
            # A part is immutable, but another writer can have created one of that name.
            if content_of(stored, PART) != secrets[name][PART]:
                self._wait(self._secrets.delete_all({name: uid_of(stored)}))
                self._create(documents[name])

    def _create(self, secret: Document) -> None:
        self._wait(self._secrets.create_all((secret,)))

    def _tidy(self) -> None:
        """Remove the marker if no rollout is under way, and the parts that the state does not name. The state is stored
        already, so a failure is no reason to stop; the next `save` tries again."""
        try:
            if self._is_marked is not False and not self._manifest.under_way:
                self._wait(self._secrets.delete_all({self._names.under_way: None}))
                self._is_marked = False
            if self._there is None:
                self._there = self._wait(self._secrets.uids())
            named = frozenset() if self._index is None else self._index.parts
            unused = {name: uid for name, uid in self._there.items() if self._names.digest(name) not in {None, *named}}
            if unused:
                self._wait(self._secrets.delete_all(unused))
                self._there = {name: uid for name, uid in self._there.items() if name not in unused}
        except (ApiError, NotHolderError) as error:
            LOG.warning("kept_parts_not_removed", extra={"why": _words(error)})

    # ---- errors ----

    def _unusable(self, cause: str) -> CommandError:
        hint = "the server goes on without it, and keeps a new one once proxies have acknowledged what it compiles"
        if not self.may_begin_anew:
            both = f"`{self._names.state}` and `{self._names.under_way}`"
            hint = f"proxies may have more than one plan: delete the Secrets {both} once each has that of one"
        return wrong_usage("ADM854", f"the stored state `{self.name}` cannot be used", cause=cause, hint=hint)

    def _unreadable(self, cause: str) -> CommandError:
        hint = "admc needs the verbs get, list, watch, create, update and delete of Secrets in this namespace"
        return wrong_usage("ADM854", f"the stored state `{self.name}` cannot be read", cause=cause, hint=hint)

    def _not_stored(self, cause: str) -> CommandError:
        return wrong_usage(
            "ADM854",
            f"cannot store the state in the Secret `{self.name}`",
            cause=cause,
            hint="the active plan stays, and the server tries again",
        )


def _by_object(manifest: Manifest, state: StoredState) -> dict[SavedSnapshot, Snapshot]:
    frozen = {} if state.position is None else state.position.frozen
    parts = (manifest.groups, state.groups), (manifest.frozen, frozen)
    return {saved[name]: snapshot for saved, snapshots in parts for name, snapshot in snapshots.items()}


def _words(error: Exception) -> str:
    if isinstance(error, NotHolderError):
        return "this replica does not hold the Lease at present"
    return str(error)
