"""Notices when a Secret of the kept state is removed or changed from outside: the next `save` writes all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.kubernetes.cluster.api.watched import Watched
from admc.kubernetes.cluster.storage.record import decode

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.requests import Api
    from admc.kubernetes.cluster.records import Key
    from admc.kubernetes.cluster.storage.record import Names, Record
    from admc.kubernetes.cluster.storage.storage import SecretStorage

PAGE: Final = 20
"""Secrets in a page of the list: 14 MB at most."""


def watched(api: Api, names: Names, storage: SecretStorage) -> Watched[Record]:
    """Return the watch. Its `run` belongs beside the active replica."""

    def changed(key: Key, old: Record | None, new: Record | None) -> None:
        storage.observed(key.name, new)

    selectors = names.selectors
    return Watched(
        api,
        names.collection,
        decode,
        selectors["labelSelector"],
        selectors["fieldSelector"],
        changed=changed,
        page=PAGE,
    )
