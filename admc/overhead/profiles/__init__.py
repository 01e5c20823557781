"""Measured costs of proxy components: what a profile holds, its JSON form, and the law that its figures follow."""
