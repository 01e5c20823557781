"""Reads a mesh with Istio, and says what its sidecars do.

paths, cluster --inputs--> Object --schemas--> findings
                           Object --mesh--> Mesh --advice--> Advice --text, json--> what the user sees
"""
