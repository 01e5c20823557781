"""What costs would be if something were otherwise: other figures, another profile, more traffic, another plan.

options --changes--> changes --scenario--> Program as it would be --run--> two reports --comparison--> text | json
"""
