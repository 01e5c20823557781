"""`admc serve --cluster` beside a real API server, with many services, pods and proxies.

Application -> Mesh (services, pods) -> Replica (the server), Proxies (the proxies of the pods) -> figures -> tables
"""
