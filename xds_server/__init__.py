"""Serves snapshots of named resources to proxies over the aggregated discovery service.

    Snapshot --publish--> SnapshotCache --watch--> Stream (one for each client) --bytes--> gRPC

It knows resources, versions and streams, and no policy. `docs/xds.md` has the interface and what the protocol's corners
look like on the wire. The reading order: `types`, `references`, `snapshot` (what is served); `subscription`, `state`,
`ordering`, `sending`, `stream` with its two variants `sotw` and `delta` (what is said to one client: pure and
synchronous); `clients`, `store`, `coalesce`, `connection`, `server` (who gets what, and when).
"""
