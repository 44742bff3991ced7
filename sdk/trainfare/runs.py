"""One attempt of a job, from `with` to its end: started, heartbeats with progress, samples, checkpoints, how it ended.

It must not raise into the training, wait for the network, or do anything in a process that was forked from it.
"""

from __future__ import annotations

import itertools
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from trainfare import process_hooks
from trainfare.attempts import current_attempt
from trainfare.gpus import Gpus
from trainfare.heartbeats import Heartbeats, gpus_of_this_process
from trainfare.names import visible
from trainfare.outcome import ENDS, REASONS, end_of
from trainfare.sender import CHECKPOINT, LIFECYCLE, REPEATED, Sender

HEARTBEAT_S = 15.0
CLOSE_WITHIN_S = 5.0
_FLUSH_WITHIN_S = 2.0
_LAST_SAMPLE_WITHIN_S = 1.0
_NAMES_MAX = 64
#: Of a checkpoint; the meter refuses the event of a longer one, so its duration is left out.
_DURATION_MS_MAX = 86_400_000
#: What `started` must have one of, or the attempt costs nothing.
_PAID_FOR = ("gpu_count", "nodes", "instance_count", "cpu_count", "memory_gib")
_NO_GPUS = "the number of GPUs is not known, so none is charged: pass gpus="


class Run:
    """An attempt. Leave it by the end of its `with` block: `completed`, or `failed` where an exception left it."""

    def __init__(
        self,
        sender: Sender | None,
        job: Mapping[str, Any],
        now_ms: Callable[[], int],
        *,
        heartbeat_s: float = HEARTBEAT_S,
        node: str = "",
        is_main_process: bool = True,
        counts_attempts: bool = True,
        has_lifecycle: bool = True,
        has_samples: bool = True,
        handles_sigterm: bool = True,
        open_gpus: Callable[[], Gpus | None] = gpus_of_this_process,
        fault: str = "",
    ) -> None:
        """Begin with `with` or `start`.

        Args:
            sender: Takes the events; without one nothing is sent.
            job: Fields of the `started` event.
            now_ms: The clock of the events.
            heartbeat_s: Seconds between two heartbeats, and two samples.
            node: Where the GPUs are.
            is_main_process: This process reports for the job; others only sample their GPUs.
            counts_attempts: The main process counts attempts, others follow it.
            has_lifecycle: Starts and ends are sent from here, and not by a collector.
            has_samples: GPUs are sampled.
            handles_sigterm: SIGTERM is, where nobody else handles it.
            open_gpus: Finds the GPUs of this process.
            fault: Why there is no sender.
        """
        self._sender = sender
        self._job = dict(job)
        self._now_ms = now_ms
        self._node = node
        self._is_main_process = is_main_process
        self._counts_attempts = counts_attempts
        self._has_lifecycle = has_lifecycle
        self._handles_sigterm = handles_sigterm
        self._unique = uuid.uuid4().hex[:16]
        self._numbers = itertools.count(1)
        self._progress: dict[str, Any] = {}
        self._quality: dict[str, Any] = {}
        self._keeps_measures = sender is not None and is_main_process
        self._fault = fault
        self._lacks_gpu_count = (
            is_main_process and has_lifecycle and not any(name in self._job for name in _PAID_FOR)
        )
        self._is_over = False
        self._pid = os.getpid()
        beat = self._beat if is_main_process else None
        sample = self._sample if has_samples else None
        self._heartbeats = Heartbeats(heartbeat_s, now_ms, beat, sample, open_gpus)

    def __repr__(self) -> str:
        """Without the token."""
        return f"Run({self.job_id!r}, attempt={self.attempt})"

    @property
    def job_id(self) -> str:
        """The job."""
        return str(self._job["job_id"])

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return int(self._job["attempt"])

    @property
    def dropped(self) -> int:
        """How many events were dropped because the meter was away for too long."""
        return self._sender.dropped if self._sender is not None else 0

    @property
    def refused(self) -> int:
        """How many events the meter did not take."""
        return self._sender.refused if self._sender is not None else 0

    @property
    def fault(self) -> str:
        """Why events do not arrive or were refused, or why the job costs nothing; empty if all is well.

        What an endpoint or an exception said in it cannot steer a terminal or forge a line of a log.
        """
        sender = self._sender
        fault = self._fault or ("" if sender is None else sender.fault or sender.refusal)
        return visible(fault) or (_NO_GPUS if self._lacks_gpu_count else "")

    def progress(self, *, quality: Mapping[str, Any] | None = None, **values: Any) -> None:
        """Record how far the work has come (step=, tokens=, ...) and how good it is; the next heartbeat has it."""
        # Called at each step, often with everything out of the processor's caches: as little as can be is done here.
        try:
            if not self._keeps_measures:
                return
            self._progress.update(values)
            if quality:
                self._quality.update(quality)
                for value in quality.values():
                    if value.__class__ is not float:
                        self._quality.update({name: _detached(each) for name, each in quality.items()})
                        break
        except Exception:  # nothing that training passes here may stop it
            return

    def checkpoint(
        self, *, at_ms: int | None = None, duration_ms: float | None = None, **values: Any
    ) -> None:
        """Record that all work up to now, or `at_ms`, is safe: what is lost later counts from here.

        `duration_ms`: for how long the training waited for it.
        """
        self.progress(quality=None, **values)
        took = _duration_of(duration_ms)
        self._send("checkpointed", lambda: {**self._measures(), **took}, at_ms=at_ms, priority=CHECKPOINT)

    @contextmanager
    def saving(self, **values: Any) -> Iterator[None]:
        """Record a checkpoint around what writes it: `with run.saving(step=n): torch.save(...)`.

        It is one of the moment at which it begins, with the time that it takes; where the write raises, there is none.
        """
        begin_ms, begin_ns = self._now_ms(), time.monotonic_ns()
        yield
        self.checkpoint(at_ms=begin_ms, duration_ms=milliseconds_since(begin_ns), **values)

    def scaled(self, gpus: float, **fields: Any) -> None:
        """Record that the job has another number of GPUs from now on."""
        if self._has_lifecycle:
            self._lacks_gpu_count = False
            self._send("scaled", lambda: {"gpu_count": gpus, **fields})

    def start(self) -> Run:
        """Begin. What is started so is ended by `end`, or with the process."""
        try:
            if self._sender is not None:
                if self._is_main_process:
                    self._sender.start()
                process_hooks.join(self, handles_sigterm=self._handles_sigterm)
            if self._has_lifecycle:
                self._send("started", lambda: self._job)
            if self._sender is not None:
                self._heartbeats.start()
        except Exception as fault:  # no thread to be had
            self._fault = f"not started: {type(fault).__name__}"
            self._sender, self._keeps_measures = None, False
            process_hooks.leave(self)
        return self

    def end(self, kind: str = "completed", reason: str | None = None) -> None:
        """End as `completed`, `failed`, `cancelled` or `preempted`; `reason` is one of the contract's."""
        fields = {"reason": reason} if reason in REASONS else {}
        self._end(kind if kind in ENDS else "failed", fields)

    def end_by(self, fault: BaseException | None) -> None:
        """End as the exception that ended the training says: `completed` if none did."""
        try:
            kind, fields = end_of(fault)
        except Exception:  # an exception's own class may be at fault
            kind, fields = "failed", {"reason": "unknown"}
        self._end(kind, fields)

    def __enter__(self) -> Run:
        return self.start()

    def __exit__(self, _kind: object, fault: BaseException | None, _trace: object) -> None:
        self.end_by(fault)

    # -- what happens to the process -------------------------------------------------------------------------

    def process_ends(self, fault: BaseException | None) -> None:
        """End with the interpreter, by the exception that nobody caught."""
        self.end_by(fault)

    def process_is_terminated(self, *, is_last: bool) -> None:
        """Send what waits; end if the process does."""
        if is_last:
            self._end("preempted", {"reason": "unknown"})
        elif self._sender is not None:
            self._beat()
            self._sender.flush(_FLUSH_WITHIN_S)

    def process_is_forked(self) -> None:
        """Leave the run to the parent."""
        sender, self._sender = self._sender, None
        self._is_over, self._keeps_measures = True, False
        if sender is not None:
            sender.abandon()

    # -- events ----------------------------------------------------------------------------------------------

    def _end(self, kind: str, fields: Mapping[str, Any]) -> None:
        try:
            if self._is_over or os.getpid() != self._pid:
                return
            self._is_over, self._keeps_measures = True, False
            at_ms = self._now_ms()
            process_hooks.leave(self)
            if self._sender is not None:
                self._heartbeats.stop(_LAST_SAMPLE_WITHIN_S)
            if self._has_lifecycle:
                self._send(kind, lambda: {**self._measures(), **fields}, at_ms=at_ms)
            elif self._progress or self._quality:
                self._beat()
            if self._sender is not None:
                self._sender.close(CLOSE_WITHIN_S)
        except Exception:  # the training's own exception goes on, and no other
            return

    def _beat(self) -> None:
        self._send("heartbeat", self._measures, priority=REPEATED)

    def _measures(self) -> dict[str, Any]:
        # Names that are new at each step must not pile up.
        self._progress, self._quality = _first_of(self._progress), _first_of(self._quality)
        found: dict[str, Any] = {}
        for name, values in (("progress", self._progress), ("quality", self._quality)):
            kept = {
                str(key): number
                for key, value in list(values.items())
                if (number := _number_of(value)) is not None
            }
            if kept:
                found[name] = kept
        return found

    def _send(
        self,
        kind: str,
        fields_of: Callable[[], Mapping[str, Any]],
        *,
        at_ms: int | None = None,
        priority: int = LIFECYCLE,
    ) -> None:
        if self._sender is None or not self._is_main_process:
            return
        try:
            time_ms = self._now_ms() if at_ms is None else at_ms
            self._sender.put(
                "jobs",
                self._event({**fields_of(), "type": kind, "time_ms": time_ms}),
                priority=priority,
            )
        except Exception:  # as above
            return

    def _sample(self, fields: dict[str, Any]) -> None:
        """Send how busy the GPUs were."""
        sender = self._sender
        if sender is None:
            return
        if not self._is_main_process:
            if self._counts_attempts:  # by now the main process has
                self._job["attempt"] = max(self.attempt, current_attempt(self.job_id))
            sender.start()
        sender.put("gpu", self._event({**fields, "node": self._node}), priority=REPEATED)

    def _event(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        number = next(self._numbers)
        of_run = {
            "source": "sdk",
            "id": f"{self._unique}-{number}",
            "job_id": self.job_id,
            "attempt": self.attempt,
        }
        return {**fields, **of_run}


def milliseconds_since(begin_ns: int) -> int:
    """How long ago an instant of the monotonic clock was."""
    return (time.monotonic_ns() - begin_ns) // 1_000_000


def _duration_of(duration_ms: float | None) -> dict[str, int]:
    """The field `duration_ms`; nothing where it is not known, or none that the meter takes."""
    number = None if duration_ms is None else _number_of(duration_ms)
    if number is None or not 0 <= number <= _DURATION_MS_MAX:
        return {}
    return {"duration_ms": round(number)}


def _first_of(values: dict[str, Any]) -> dict[str, Any]:
    return dict(list(values.items())[:_NAMES_MAX]) if len(values) > _NAMES_MAX else values


def _detached(value: Any) -> Any:
    """A tensor without what it was computed from, which must not stay in memory for it."""
    detach = getattr(value, "detach", None)
    return detach() if callable(detach) else value


def _number_of(value: object) -> float | None:
    """A number, None if it is none or not finite."""
    try:
        number = float(value)  # type: ignore[arg-type]  # training may pass anything
    except Exception:
        return None
    return number if number == number and abs(number) != float("inf") else None
