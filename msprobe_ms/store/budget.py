"""How many bytes of tensors a run may write, over all its dumps."""

import threading


class Budget:
    """A number of bytes that writers share; what one has taken is gone for all. Safe to use from several threads."""

    def __init__(self, total_bytes: int) -> None:
        self.total = total_bytes
        self._left = total_bytes
        self._lock = threading.RLock()  # a signal handler may come in between, and take too

    def take(self, size: int) -> bool:
        """Take `size` bytes if so many are left; otherwise nothing is taken, and something smaller may still fit."""
        with self._lock:
            if size > self._left:
                return False
            self._left -= size
            return True
