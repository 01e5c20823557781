"""Text to syntax tree, and back to text: tokens, grammar, canonical layout."""
