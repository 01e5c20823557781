"""The causes of a move: the changes of the program without which the decision would have kept its side.

    programs of both sides --elements--> changes --search--> an irreducible set --explain--> causes in the Diff

`search` tries sets of changes. For each set, `elements.hybrid` builds BASE with these changes, and it is solved again.
"""
