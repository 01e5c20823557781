"""What becomes of the protection of requests between two plans."""

from admc.diff.protection.findings import Findings, findings

__all__ = ["Findings", "findings"]
