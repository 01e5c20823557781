"""Why a decision moved: the changes of the input without which it would not have.

    programs of both sides --elements--> changes --search--> an irreducible set --explain--> causes in the Diff

`elements.hybrid` makes the program with some of the changes, which is solved again.
"""
