"""The annotations that keep the identity webhooks of EKS and Azure away from admc's containers.

Each of these webhooks adds variables and a mount to all containers of a pod but those that its annotation names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.kubernetes.inject.containers import NAMES

if TYPE_CHECKING:
    from collections.abc import Mapping

SEPARATORS: Final = {"eks.amazonaws.com/skip-containers": ",", "azure.workload.identity/skip-containers": ";"}
"""Annotation -> what stands between the names of two containers. No space may stand there on EKS."""


def skipping_own(annotations: Mapping[str, str], *, is_injected: bool) -> dict[str, str]:
    """Return the annotations of a pod, in which admc's containers are named if it has any, and are not otherwise.

    >>> skipping_own({"eks.amazonaws.com/skip-containers": "admc-wait,other"}, is_injected=False)
    {'eks.amazonaws.com/skip-containers': 'other'}
    """
    changed = dict(annotations)
    for key, separator in SEPARATORS.items():
        listed = changed[key].split(separator) if key in changed else []
        others = [name for name in listed if name.strip() not in NAMES]
        # First, since the webhook of EKS reads one line only, and the user may have written several.
        names = [*NAMES, *others] if is_injected else others
        if names:
            changed[key] = separator.join(names)
        else:
            changed.pop(key, None)
    return changed
