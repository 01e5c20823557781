"""Puts ADMs into pod templates.

manifests -> documents -> pod templates --(with what each is to have)--> pod templates -> manifests

`template.injected` is the one function that changes a template. It is pure, and knows neither files nor a server.
"""
