"""A thread that sends heartbeats and GPU samples of a run at regular intervals."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import Any

from trainfare.gpus import Gpus, parent_of
from trainfare.nvml import Nvml

#: A sample may stand for an hour at most.
_LONGEST_INTERVAL_MS = 3_600_000
#: The driver keeps its readings of the use for 14 s on an H200.
GATHER_S = 10.0
_SHORTEST_S = 0.01


class Heartbeats:
    """The thread."""

    def __init__(
        self,
        interval_s: float,
        now_ms: Callable[[], int],
        beat: Callable[[], None] | None,
        sample: Callable[[dict[str, Any]], None] | None,
        open_gpus: Callable[[], Gpus | None],
        gather_s: float = GATHER_S,
    ) -> None:
        """`beat`: at each interval. `sample`: at each interval, with fields of a `gpu` event; None of them: not.

        `gather_s`: how long readings may be left to the driver within an interval.
        """
        self._parts = max(math.ceil(min(_LONGEST_INTERVAL_MS / 1000, interval_s) / gather_s), 1)
        self._part_s = min(threading.TIMEOUT_MAX, max(interval_s / self._parts, _SHORTEST_S))
        self._now_ms = now_ms
        self._beat = beat
        self._sample = sample
        self._open_gpus = open_gpus
        self._gpus: Gpus | None = None
        self._looked_ms = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trainfare-heartbeats", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, within_s: float) -> None:
        """Take the last sample and end; wait for that no longer than told."""
        self._stopped.set()
        if self._thread.ident and self._thread is not threading.current_thread():
            self._thread.join(within_s)

    def _work(self) -> None:
        self._quietly(self._begin_to_look)
        if self._beat is None and self._gpus is None:
            return
        while self._wait():
            if self._beat is not None:
                self._quietly(self._beat)
            self._quietly(self._look)
        self._quietly(self._look)

    def _wait(self) -> bool:
        """Wait for the end of the interval; return whether to go on."""
        for part in range(self._parts):
            if self._stopped.wait(self._part_s):
                return False
            if self._gpus is not None and part < self._parts - 1:
                self._quietly(self._gpus.gather)
        return True

    @staticmethod
    def _quietly(act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:  # the next one may go well
            return

    def _begin_to_look(self) -> None:
        if self._sample is None:
            return
        self._gpus = self._open_gpus()
        if self._gpus is not None:
            self._gpus.look()
            self._looked_ms = self._now_ms()

    def _look(self) -> None:
        if self._gpus is None or self._sample is None:
            return
        columns, now_ms = self._gpus.look(), self._now_ms()
        interval_ms, self._looked_ms = now_ms - self._looked_ms, now_ms
        if columns and 0 < interval_ms <= _LONGEST_INTERVAL_MS:
            self._sample({**columns, "time_ms": now_ms, "interval_ms": interval_ms})


def gpus_of_this_process() -> Gpus | None:
    """The GPUs, None where there is no driver."""
    try:
        return Gpus(Nvml(), os.environ, os.getpid(), parent_of)
    except OSError:
        return None
