"""Compares the costs of a program before and after a change: of figures, of the profile, of traffic, of the plan.

options --changes--> changes --scenario--> changed Program --run--> two reports --comparison--> text | json
"""
