"""Estimates what each sidecar costs before it is deployed: profiles of measured costs, and the model that uses them."""
