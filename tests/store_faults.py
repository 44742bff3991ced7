"""Faults on demand of the tests' server, in the order in which they were asked for."""

import threading
from collections import Counter
from typing import Final, Literal

Fault = Literal[
    "unavailable",  # 503
    "too_many",  # 429
    "broken",  # 500 without a code of ClickHouse
    "slow",
    "reset_before",
    "reset_after",
    "unavailable_after",
    "truncated",  # done, but the answer breaks off
    "wrong",  # not done, and another server's page with status 200
    "wrong_after",
    "die",  # the process kills itself `delay_s` after the request came
]
STATUS: Final[dict[Fault, int]] = {"unavailable": 503, "too_many": 429, "broken": 500, "wrong": 200}


class Faults:
    """Faults still to come, of inserts or of all requests."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: list[tuple[Fault, str, float]] = []
        #: How often each fault came about.
        self.fired: Counter[str] = Counter()

    def add(self, kind: Fault, times: int, on: str, delay_s: float) -> None:
        with self._lock:
            self._left.extend([(kind, on, delay_s)] * times)

    def clear(self) -> None:
        with self._lock:
            self._left.clear()

    def take(self, *, insert: bool) -> tuple[Fault, float] | None:
        with self._lock:
            for fault in self._left:
                if fault[1] == "all" or insert:
                    self._left.remove(fault)
                    self.fired[fault[0]] += 1
                    return fault[0], fault[2]
        return None
