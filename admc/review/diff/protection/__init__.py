"""What becomes of the protection of requests between two plans.

    two plans, partners --comparison, index--> one question a module --detection--> findings, none twice

The questions: `arguments`, `asked`, `callers`, `closing`, `environment`, `guards`, `interference`, `kinds`, `matches`,
`meeting`, `ordering`, `reliance`, `targets`.
"""

from admc.review.diff.protection.detection import Findings, findings

__all__ = ["Findings", "findings"]
