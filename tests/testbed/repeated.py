"""What goes on beside a test, over and over, in a thread of its own."""

from __future__ import annotations

import threading
from typing import Self

SECONDS = 60.0


class Repeated:
    """Use as a context: `once` is called again and again until the block ends, then `let_go`, in the same thread."""

    def __init__(self, pause: float = 0.0) -> None:
        """`pause` is the seconds between two calls."""
        self._pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def once(self) -> None:
        raise NotImplementedError

    def let_go(self) -> None:
        """Close what is kept from one time to the next."""

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), "it does not come to an end"

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._pause):
                self.once()
        finally:
            self.let_go()
