"""The rules of a correct placement (docs/rules.md) as data: the sides that each decision has, and what binds them."""
