"""The two sides of a comparison: from names on the command line to plans."""
