"""Profiles: measured costs of proxy components, and the law that the figures follow.

name or file --source--> text --read--> Profile --law--> cost at a rate and a size
Profile --write--> text       Profile --text, json--> output for users       two Profiles --diff--> Difference
"""
