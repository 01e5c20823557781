"""What becomes of the protection of requests between two plans."""

from admc.diff.protection.detection import Findings, findings

__all__ = ["Findings", "findings"]
