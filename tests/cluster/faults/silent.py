"""A process between a server and the API server. After SIGUSR1 all connections that are open then stay, and nothing
passes any more; new ones work.

python -m tests.cluster.faults.silent PORT HOST PORT
"""

from __future__ import annotations

import asyncio
import signal
import sys

from tests.cluster.api.proxy import Proxy


async def main(port: int, host: str, to: int) -> None:
    proxy = Proxy(host, to)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, proxy.silence)
    listening = await asyncio.start_server(proxy.connected, "127.0.0.1", port)
    await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
