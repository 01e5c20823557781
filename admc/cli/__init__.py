"""The command line: one command a module, and nothing heavy loaded before a command runs.

    arguments --app, options--> a command --> the rooms below --> output --> standard output, exit code

A command reads its options, calls functions of other rooms, and chooses the renderer. It makes no other decisions.
"""
