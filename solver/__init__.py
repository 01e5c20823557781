"""From a resolved program to the smallest correct placement.

    program -> options -> order -> cover | model -> placement
                 |           |
                 +-----------+-> conflict (no correct placement)

`rules.options` finds the places that each decision may take (R3, R4, R5, R7, R8, R10), and `rules.order` removes those
that R6 excludes. `cover` finds the best choices by all levels of the objective. `cpsat` does so where a capacity may be
exceeded. `place` calls them in this order. `verify` checks the result and shares no code with the solver's model.
"""
