"""Profiles: measured costs of proxy components, and the law that the figures follow.

name or file --source--> text --read--> Profile --law--> cost at a rate and a size
Profile --write--> text       Profile --text, json--> what a user sees       two Profiles --diff--> Difference
"""
