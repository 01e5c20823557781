"""gRPC: the server, its open streams, and who listens."""
