"""Modules that all rooms of admc but `pod` use: exit codes, files, terminal, numbers, findings. They import no
other room.

path --files--> bytes                 bytes --files--> path, whole or not at all
text of a user --terminal--> text that is safe to print
number --decimals--> digits           cells --columns--> lines of a table
CommandError (exits) --findings--> a report in the format that the user chose
"""
