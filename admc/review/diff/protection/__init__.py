"""The changes of the protection of requests between two plans.

    two plans, renames --comparison, index--> Comparison --detectors--> notes --detection--> findings

Each detector is a module for one kind of change: `arguments`, `asked`, `callers`, `closing`, `environment`, `guards`,
`interference`, `kinds`, `matches`, `meeting`, `ordering`, `reliance`, `targets`. A change that no detector can judge
must become an unclear finding.
"""

from admc.review.diff.protection.detection import Findings, findings

__all__ = ["Findings", "findings"]
