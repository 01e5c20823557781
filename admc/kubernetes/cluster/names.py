"""Names in the cluster that belong to admc: groups, labels, field managers."""

from __future__ import annotations

from typing import Final

GROUP: Final = "admc.dev"
VERSION: Final = "v1alpha1"
PROGRAMS: Final = f"/apis/{GROUP}/{VERSION}/programs"
"""The path of the objects of kind `Program`, which are cluster-scoped."""

CONTROLLER: Final = f"{GROUP}/controller"
"""Label of namespaces that take part in an installation, and of objects that it writes; the value is its name."""

FIELD_MANAGER: Final = "admc"
"""The field manager of every server-side apply."""
