"""The two sides of a comparison: from names on the command line to plans.

    name --place--> file or revision --files, tree, git--> its files --take--> Side: a Plan with its Program
    a program that BASE lacks --predecessors--> the programs of BASE that it continues

A revision is read as objects of git. No module here checks out, fetches or executes anything of a repository.
"""
