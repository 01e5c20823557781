"""From paths to objects: which files are read, what is refused in them, and what is kept of each object.

paths --files--> bytes --reading--> Inputs: objects that fit their schemas, and findings
"""
