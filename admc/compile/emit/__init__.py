"""The configuration of a placement in a folder.

    Program, Placement, endpoints file --emission--> files by path --folder--> a folder

`manifest` records which files admc wrote, so that a later emit removes those and no others.
"""
