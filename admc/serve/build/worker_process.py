"""The process that compiles, from its first line on: when whoever started it goes away, it does so, too, in silence.

    python -m admc.serve.build.worker_process CONNECTION LIFELINE

Both are open files: what it is asked comes over the one, and the other is at its end when the server is.
"""

from __future__ import annotations

import os
import sys
import threading
from multiprocessing.connection import Connection


def main() -> None:
    connection, lifeline = Connection(int(sys.argv[1])), int(sys.argv[2])
    threading.Thread(target=_leave_at_the_end_of, args=(lifeline,), daemon=True).start()
    from admc.serve.build.worker import serve

    serve(connection)


def _leave_at_the_end_of(lifeline: int) -> None:
    os.read(lifeline, 1)  # nobody writes there
    os._exit(0)


if __name__ == "__main__":
    main()
