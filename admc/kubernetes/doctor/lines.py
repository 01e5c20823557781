"""Parts of the lines that several checks of an installation have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from admc.base.checks import Check, CheckVerdict

if TYPE_CHECKING:
    from admc.kubernetes.cluster.api.errors import ApiError

SHOWN: Final = 3
"""Names in one line."""
INSTALL: Final = "`helm install admc deploy/chart`, or `kubectl apply -f deploy/install.yaml`"


def unread(subject: str, error: ApiError) -> Check:
    return Check(subject, CheckVerdict.UNKNOWN, f"the API server does not show it: {error.message}")
