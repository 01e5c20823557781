"""Redirection of exactly the traffic that an ADM enforces policies on (docs/interception.md).

program + placement + addresses -> [Interception] -> rules files, script
hops of a pod's ADM -> PodCaptures -> arguments of its rules container -> rules files

This module imports nothing: the rules container of every pod loads `pod`, without the imports of the other modules.
"""
