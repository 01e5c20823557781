"""From a resolved program to the smallest correct placement.

    program -> options -> order -> cover | model -> placement
                 |           |
                 +-----------+-> conflict (no correct placement)

`options` says which sides each decision has (R3, R4, R5, R7, R8, R10), `order` what R6 leaves of them, `cover` finds
the fewest hosts, `model` does the same with CP-SAT where costs, capacities or an earlier plan take part, and `place`
ties them together. `verify` judges the result and shares nothing with any of them.
"""
