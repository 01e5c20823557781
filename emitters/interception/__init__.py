"""Redirection of exactly the traffic that an ADM enforces policies on (docs/interception.md).

program + placement + addresses -> [Interception] -> rules files, script
hops of a pod's ADM -> PodCaptures -> arguments of its rules container -> rules files

Nothing is imported here: the rules container of every pod loads `pod`, and not what the others need.
"""
