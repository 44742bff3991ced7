"""Sends events in a thread of its own: a bounded queue, batches, retries; what does not fit is dropped and counted.

With a spool a second thread writes events to disk first, however long a request takes.
"""

from __future__ import annotations

import collections
import json
import os
import threading
import time
from typing import Any

from trainfare.endpoint import DONE, LATER, NEVER, STOP, Endpoint
from trainfare.spool import EVENT_BYTES, Spool

EVENTS_WAITING = 1_000
_BATCH = 200
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0
#: After an answer that refuses the token or the address, which needs a fix by the user.
_REJECTED_WAIT_S = 300.0
#: Between two requests while all is well: the short one some times, and on the whole the long one, so that a checkpoint each
#: second costs a request each five.
_SHORT_PAUSE_S = 0.5
_LONG_PAUSE_S = 5.0
_SHORT_PAUSES = 10
_HURRIED_PAUSE_S = 0.2
_SPOOL_AGAIN_S = 30.0
_SPOOL_CLOSED_S = 1.0
#: Priorities in a full queue: after a lost heartbeat or sample there is another one, a later checkpoint stands for an earlier one,
#: and without its start a job costs nothing.
REPEATED, CHECKPOINT, LIFECYCLE = range(3)


class Sender:
    """One endpoint. Every method returns at once but `flush` and `close`, which are told how long they may take."""

    def __init__(self, endpoint: Endpoint, spool: Spool | None = None) -> None:
        """Begin with `start`. The spool is read and written by the threads alone."""
        self._endpoint = endpoint
        self._spool = spool
        self._waiting: collections.deque[tuple[bytes, int]] = collections.deque()
        self._changed = threading.Condition()
        self._pid = os.getpid()
        self._thread = threading.Thread(target=self._work, name="trainfare", daemon=True)
        self._storing = threading.Thread(target=self._store_all, name="trainfare-spool", daemon=True)
        self._closing_by_s = 0.0
        self._hurried_by_s = 0.0
        self._is_sending_over = False
        self._tries_at_close = 0
        self._not_before_s = 0.0
        self._wait_s = 0.0
        self._spool_again_s = 0.0
        self._one_by_one = 0
        self._short_pauses = float(_SHORT_PAUSES)
        self._paused_s = 0.0
        self.sent = 0  #: events that were accepted
        self.dropped = 0  #: events for which there was no room or no time
        self.refused = 0  #: events that the meter does not take
        self.fault = endpoint.fault  #: why the last attempt failed; empty if it did not
        self.refusal = ""  #: how many events were refused, and why the last one; empty if none was

    def start(self) -> None:
        """Begin to send."""
        if os.getpid() != self._pid or self._thread.ident:
            return
        if self._spool is not None:
            try:
                self._storing.start()
            except Exception:  # no thread to be had
                self._spool = None
        self._thread.start()

    def put(self, topic: str, value: dict[str, Any], *, priority: int = LIFECYCLE) -> None:
        """Queue an event. A full queue drops the oldest event of the lowest priority, and counts it."""
        if os.getpid() != self._pid:
            return  # a fork: the thread is not here
        event = encoded({"topic": topic, "value": value})
        with self._changed:
            if len(event) > EVENT_BYTES:
                self._note_refused(1, f"larger than {EVENT_BYTES} bytes")
                return
            if len(self._waiting) >= EVENTS_WAITING:
                self.dropped += 1
                priorities = [each for _, each in self._waiting]
                lowest = min(priorities)
                if priority < lowest:
                    return
                del self._waiting[priorities.index(lowest)]
            self._waiting.append((event, priority))
            self._changed.notify_all()

    def flush(self, within_s: float) -> bool:
        """Send what waits now; return whether all was sent in time."""
        if os.getpid() != self._pid or not self._thread.is_alive():
            return False
        with self._changed:
            self._hurried_by_s = time.monotonic() + within_s
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._has_any(), within_s)

    def close(self, within_s: float) -> None:
        """Send what waits for at most so long; what is left stays in the spool, or is dropped and counted."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            self._closing_by_s = time.monotonic() + within_s
            self._changed.notify_all()
        if self._thread.ident:
            self._thread.join(within_s)
        if self._storing.ident:
            self._storing.join(_SPOOL_CLOSED_S)
        with self._changed:
            self.dropped += len(self._waiting)
            self._waiting.clear()

    def abandon(self) -> None:
        """Let go of what the process that this one was forked from goes on with."""
        if self._spool is not None:
            self._spool.abandon()

    # -- the thread that sends -------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while self._rest():
                self._send_some()
        except Exception as fault:  # the training goes on without a meter
            self.fault = type(fault).__name__
        with self._changed:
            self._is_sending_over = True
            self._changed.notify_all()

    def _rest(self) -> bool:
        """Wait until there is something to send; return whether to go on at all."""
        with self._changed:
            while True:
                now_s, has_any = time.monotonic(), self._has_any()
                if not has_any:
                    self._changed.notify_all()
                if self._closing_by_s and (not has_any or now_s >= self._closing_by_s or self._is_hopeless()):
                    return False
                due_s = now_s if self._is_hurried(now_s) else self._not_before_s
                is_ready = has_any and (self._has_spooled() or not self._is_spooling(now_s))
                if is_ready and due_s <= now_s:
                    return True
                until_s = due_s if is_ready else self._closing_by_s
                self._changed.wait(max(until_s - now_s, 0.01) if until_s else None)

    def _has_any(self) -> bool:
        return bool(self._waiting) or self._has_spooled()

    def _has_spooled(self) -> bool:
        return self._spool is not None and self._spool.has_any()

    def _is_spooling(self, now_s: float) -> bool:
        """Whether what waits is about to be on disk."""
        return self._spool is not None and self._spool_again_s <= now_s

    def _is_hopeless(self) -> bool:
        """Nothing is gained by trying again at the end: it was away for long, or all is safe on disk."""
        return bool(self._tries_at_close) and (
            self._wait_s >= _LONGEST_WAIT_S or (self._spool is not None and not self._waiting)
        )

    def _send_some(self) -> None:
        events, is_spooled = self._next()
        if not events:
            return
        outcome = self._endpoint.post(events)
        # A request that the meter took may still refuse some events: `refusal` has these, whichever batch they were in.
        self.fault = "" if outcome.kind == DONE else outcome.fault
        if outcome.kind in (LATER, STOP):
            self._wait_longer(_REJECTED_WAIT_S if outcome.kind == STOP else _LONGEST_WAIT_S)
            return
        self._wait_s = 0.0
        # A full batch has more behind it.
        self._not_before_s = 0.0 if len(events) == _BATCH else self._after_pause_s()
        if outcome.kind == NEVER and len(events) > 1:
            self._one_by_one, self._not_before_s = len(events), 0.0  # one of them is at fault
            return
        if self._one_by_one:
            self._one_by_one, self._not_before_s = self._one_by_one - 1, 0.0
        refused = outcome.refused if outcome.kind == DONE else len(events)
        self.sent += len(events) - refused
        self._note_refused(refused, outcome.fault)
        self._forget(events, is_spooled=is_spooled)

    def _note_refused(self, count: int, why: str) -> None:
        """Count refused events; later ones that are taken do not hide why."""
        self.refused += count
        if count:
            self.refusal = f"refused events: {self.refused}; the last one: {why}"

    def _after_pause_s(self) -> float:
        """Return when the next request may go."""
        now_s = time.monotonic()
        regained = (now_s - self._paused_s) / _LONG_PAUSE_S
        self._short_pauses, self._paused_s = min(self._short_pauses + regained, _SHORT_PAUSES), now_s
        if self._short_pauses < 1:
            return now_s + _LONG_PAUSE_S
        self._short_pauses -= 1
        return now_s + _SHORT_PAUSE_S

    def _next(self) -> tuple[list[bytes], bool]:
        """The events to send, and whether they are on disk."""
        count = 1 if self._one_by_one else _BATCH
        events = self._spool.take(count) if self._spool is not None else []
        if events:
            return events, True
        with self._changed:
            if self._is_spooling(time.monotonic()):
                return [], False
            return [self._waiting[place][0] for place in range(min(len(self._waiting), count))], False

    def _forget(self, events: list[bytes], *, is_spooled: bool) -> None:
        if is_spooled and self._spool is not None:
            self._spool.taken_is_done()
            return
        with self._changed:
            # Some may have been dropped meanwhile.
            for event in events:
                if self._waiting and self._waiting[0][0] is event:
                    self._waiting.popleft()

    def _wait_longer(self, longest_s: float) -> None:
        is_closing = bool(self._closing_by_s)
        self._tries_at_close += is_closing
        self._wait_s = (
            longest_s
            if longest_s == _REJECTED_WAIT_S
            else min(max(2 * self._wait_s, _FIRST_WAIT_S), longest_s)
        )
        self._not_before_s = time.monotonic() + self._wait_s
        if self._is_hurried(time.monotonic()):
            time.sleep(_HURRIED_PAUSE_S)

    def _is_hurried(self, now_s: float) -> bool:
        return bool(self._closing_by_s) or now_s < self._hurried_by_s

    # -- the thread that stores ------------------------------------------------------------------------------

    def _store_all(self) -> None:
        spool = self._spool
        if spool is None:
            return
        try:
            spool.open()
            while self._until_any_waits():
                self._store(spool)
            self._store(spool)
        except Exception as fault:  # no disk, no spool: events are sent from memory
            self.fault = f"no spool: {type(fault).__name__}"
        with self._changed:
            self._spool = None
            self._changed.notify_all()
        spool.close()

    def _until_any_waits(self) -> bool:
        """Wait for events; return whether to go on, which ends with the sending or the time for it."""
        with self._changed:
            while True:
                now_s = time.monotonic()
                if self._closing_by_s and (self._is_sending_over or now_s >= self._closing_by_s):
                    return False
                if self._waiting and self._spool_again_s <= now_s:
                    return True
                until_s = self._closing_by_s or (self._spool_again_s if self._waiting else 0.0)
                self._changed.wait(max(until_s - now_s, 0.01) if until_s else None)

    def _store(self, spool: Spool) -> None:
        """Move what waits to the disk. Where it has no room events wait here, and are sent from here."""
        while self._waiting:
            event, priority = self._waiting[0]
            is_stored = spool.append(event, is_dispensable=priority == REPEATED)
            with self._changed:
                if not is_stored:
                    self._spool_again_s = time.monotonic() + _SPOOL_AGAIN_S
                elif self._waiting and self._waiting[0][0] is event:
                    self._waiting.popleft()
                self._changed.notify_all()
            if not is_stored:
                return


def encoded(event: dict[str, Any]) -> bytes:
    """An event as JSON, numbers of NumPy and PyTorch as numbers.

    Raises:
        TypeError, ValueError: It has something that JSON has not.
    """
    return json.dumps(event, allow_nan=False, default=_number_of, separators=(",", ":")).encode()


def _number_of(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(type(value).__name__)
