"""Redirection of exactly the traffic that an ADM enforces policies on (docs/interception.md).

program + placement + addresses -> [Interception] -> rules files, script
"""

from emitters.interception.captures import (
    EgressCapture,
    Family,
    IngressCapture,
    Interception,
    Probe,
    Reached,
    interception,
    interceptions,
    original_destinations,
)
from emitters.interception.rules import remove_file, restore_file
from emitters.interception.script import RULES_FILES, script

__all__ = [
    "RULES_FILES",
    "EgressCapture",
    "Family",
    "IngressCapture",
    "Interception",
    "Probe",
    "Reached",
    "interception",
    "interceptions",
    "original_destinations",
    "remove_file",
    "restore_file",
    "script",
]
