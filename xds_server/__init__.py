"""Serves snapshots of named resources to proxies over the aggregated discovery service.

    Snapshot --publish--> SnapshotCache --push--> Stream (one for each client) --bytes--> gRPC

It serves resources with versions, and has no notion of a policy. `docs/xds.md` describes the interface and the corner
cases of the protocol. Each of these packages imports only the packages before it:

    resources    snapshots and their references; the snapshot of each group, and the acknowledgements of its clients
    protocol     the state machine of one stream, pure: subscription, type_state, sequencing, responses, transition,
                 stream, and its variants sotw and delta
    limits       bounds for clients
    transport    gRPC: admission, connection, client_registry, debounce, server

Beside the packages, `csds` and `health` are further gRPC services, `metrics` has the counters.
"""
