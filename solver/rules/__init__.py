"""The rules of a correct placement (docs/rules.md) as data: the sides of each decision, and their order."""
