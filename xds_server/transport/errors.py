"""The error that ends a stream before its client closes it."""

from __future__ import annotations

import grpc  # type: ignore[import-untyped]


class StreamRejectedError(Exception):
    """The stream ends with this gRPC status, and the client receives the message."""

    def __init__(self, code: grpc.StatusCode, message: str) -> None:
        super().__init__(message)
        self.code = code
