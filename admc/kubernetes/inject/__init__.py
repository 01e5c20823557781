"""Puts ADMs into pod templates.

manifests -> documents -> pod templates --(with the needs of each)--> pod templates -> manifests

`template.injected` is the one function that changes a template. It is pure, and uses neither files nor a server.
"""
