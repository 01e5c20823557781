"""The model of all diagnostics, and the explanations of all codes of the language."""
