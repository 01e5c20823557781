"""The two sides of a comparison: from names on the command line to plans.

    name --place--> file or revision --files, tree, git--> its files --take--> Plan and what it was made of
    a program that BASE lacks --predecessors--> the programs of BASE that it continues

A revision is read as git's objects: nothing is checked out, fetched or executed.
"""
