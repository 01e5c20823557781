"""Hand on connections from a port of the machine to an address of the node's network.

    python -m tests.cluster.node.forward DESCRIPTOR ADDRESS PORT

The listening socket was made in the machine's network, and this process is in the node's: a socket belongs to the
namespace that it was made in.
"""

from __future__ import annotations

import asyncio
import socket
import sys

CHUNK = 1 << 16


async def main(descriptor: int, address: str, port: int) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            other_reader, other_writer = await asyncio.open_connection(address, port)
        except OSError:
            writer.transport.abort()
            return
        try:
            await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))
        finally:
            writer.close()
            other_writer.close()

    server = await asyncio.start_server(connected, sock=socket.socket(fileno=descriptor))
    await server.serve_forever()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All bytes of one direction, and its end; a reset of one side becomes a reset of the other."""
    try:
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
