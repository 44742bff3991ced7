"""Sends events in a thread of its own: a bounded queue, batches, retries; what does not fit is dropped and counted.

It must not raise into, or wait in, the thread that trains.
"""

from __future__ import annotations

import collections
import json
import os
import threading
import time
import urllib.error
import urllib.request
from typing import Any

EVENTS_WAITING = 1_000
_BATCH = 200
_TIMEOUT_S = 5.0
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0
#: Answers after which the same batch is sent again; after any other it would be refused again.
_TRY_LATER = (408, 429, 500, 502, 503, 504)


class Sender:
    """One endpoint. Every method returns at once but `close`."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url.rstrip("/") + "/api/v1/events"
        self._token = token
        self._waiting: collections.deque[dict[str, Any]] = collections.deque()
        self._changed = threading.Condition()
        self._closing_by_s = 0.0
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, name="trainfare", daemon=True)
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects)
        self.sent = 0  #: events that were accepted
        self.dropped = 0  #: events for which there was no room or no time
        self.refused = 0  #: events that the meter does not take
        self.fault = ""  #: why the last attempt failed; empty if it did not

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def put(self, topic: str, value: dict[str, Any], *, is_dispensable: bool = False) -> None:
        """Queue an event. A full queue drops dispensable ones (heartbeats) first, then the oldest."""
        if os.getpid() != self._pid:
            return  # a fork: the thread is not here
        with self._changed:
            if len(self._waiting) >= EVENTS_WAITING:
                self.dropped += 1
                if is_dispensable:
                    return
                self._waiting.popleft()
            self._waiting.append({"topic": topic, "value": value})
            self._changed.notify()

    def close(self, within_s: float) -> list[dict[str, Any]]:
        """Send what waits for at most so long; return what is left."""
        if os.getpid() != self._pid:
            return []
        with self._changed:
            self._closing_by_s = time.monotonic() + within_s
            self._changed.notify()
        self._thread.join(within_s + _TIMEOUT_S)
        with self._changed:
            left = list(self._waiting)
            self._waiting.clear()
            self.dropped += len(left)
        return left

    def _work(self) -> None:
        wait_s = 0.0
        while True:
            with self._changed:
                while not self._waiting and not self._closing_by_s:
                    self._changed.wait()
                if wait_s and not self._closing_by_s:
                    self._changed.wait_for(lambda: bool(self._closing_by_s), wait_s)
                if self._closing_by_s and (not self._waiting or time.monotonic() > self._closing_by_s):
                    return
                batch = [self._waiting[place] for place in range(min(len(self._waiting), _BATCH))]
            if self._post(batch):
                wait_s = 0.0
                with self._changed:
                    # What was dropped meanwhile was the oldest.
                    for event in batch:
                        if self._waiting and self._waiting[0] is event:
                            self._waiting.popleft()
            else:
                wait_s = min(max(2 * wait_s, _FIRST_WAIT_S), _LONGEST_WAIT_S)
                if self._closing_by_s:
                    time.sleep(min(0.2, max(self._closing_by_s - time.monotonic(), 0)))

    def _post(self, batch: list[dict[str, Any]]) -> bool:
        """Return whether the batch is done with."""
        try:
            headers = {"Content-Type": "application/json", "Authorization": "Bearer " + self._token}
            request = urllib.request.Request(self._url, json.dumps(batch).encode(), headers)
            with self._opener.open(request, timeout=_TIMEOUT_S) as answer:
                found = json.loads(answer.read(2**20))
            refused = found.get("refused", [])
            self.sent += len(batch) - len(refused)
            self.refused += len(refused)
            self.fault = str(refused[0].get("detail", "")) if refused else ""
        except urllib.error.HTTPError as fault:
            fault.close()
            self.fault = f"answered {fault.code}"
            if fault.code in _TRY_LATER:
                return False
            self.refused += len(batch)
        except Exception as fault:  # whatever a network does
            self.fault = f"{type(fault).__name__}: {fault}"
            return False
        return True


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The token is for the address that was named."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None
