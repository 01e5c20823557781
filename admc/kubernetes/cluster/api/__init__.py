"""The API server of a Kubernetes cluster: requests, list and watch, server-side apply, Lease.

connection (configuration, TLS, tokens) --> requests.Api --> watched.Watched (list and watch -> records)
                                                         --> applied.Applied (applies, none where nothing changes)
                                                         --> lease.LeaseHolder (which replica serves)

Only `connection` and `requests` use the official client, and only for its connections: the JSON of the API server never
becomes one of the client's typed objects (docs/adr/0024).
"""
