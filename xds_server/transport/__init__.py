"""The gRPC server, its open streams, and the admission of clients."""
