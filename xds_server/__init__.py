"""Serves snapshots of named resources to proxies over the aggregated discovery service.

    Snapshot --publish--> SnapshotCache --push--> Stream (one for each client) --bytes--> gRPC

It serves resources with versions, and has no notion of a policy. `docs/xds.md` has the interface and the corners of the
protocol. The packages, each of which imports only those before it:

    resources    snapshots and their references; which snapshot a group gets; what its clients have acknowledged
    protocol     the state machine of one stream, pure: subscription, type_state, sequencing, responses, transition,
                 stream, and its variants sotw and delta
    limits       bounds for clients
    transport    gRPC: admission, connection, client_registry, debounce, server

Beside them: `csds` and `health` are further gRPC services, `metrics` has the counters.
"""
