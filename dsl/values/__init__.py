"""Arguments of policies: units, types, and what the text of each has to be."""
