"""Arguments of policies: their types, and the formats of their text."""
