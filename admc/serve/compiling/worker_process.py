"""The main module of a worker process. It ends without output when the server ends.

    python -m admc.serve.compiling.worker_process CONNECTION LIFELINE

Both arguments are numbers of open files. Requests arrive over the first one. The second one reaches its end of file
when the server ends.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Connection


def main() -> None:
    connection, lifeline = Connection(int(sys.argv[1])), int(sys.argv[2])
    threading.Thread(target=_exit_at_end_of_file, args=(lifeline,), daemon=True).start()
    from admc.serve.compiling.worker import serve

    serve(connection)


def _exit_at_end_of_file(lifeline: int) -> None:
    os.read(lifeline, 1)  # the server never writes to it
    os._exit(0)


if __name__ == "__main__":
    main()
