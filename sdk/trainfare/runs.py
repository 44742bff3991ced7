"""One attempt of a job, from `with` to its end: started, heartbeats with progress, checkpoints, and how it ended.

It must not raise into the training, wait for the network, or do anything in a process that was forked from it.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Self

from trainfare.attempts import next_attempt
from trainfare.sender import Sender

DEFAULT_URL = "http://127.0.0.1:8787"
HEARTBEAT_S = 15.0
CLOSE_WITHIN_S = 5.0
_OUT_OF_MEMORY = ("MemoryError", "OutOfMemoryError")


class Run:
    """An attempt. Leave it by the end of its `with` block: `completed`, or `failed` where an exception left it."""

    def __init__(
        self,
        sender: Sender | None,
        job: Mapping[str, Any],
        now_ms: Callable[[], int],
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        """`job`: fields of the `started` event. Without a sender nothing is sent."""
        self._sender = sender
        self._job = dict(job)
        self._now_ms = now_ms
        self._heartbeat_s = heartbeat_s
        self._unique = uuid.uuid4().hex[:12]
        self._count = 0
        self._progress: dict[str, float] = {}
        self._quality: dict[str, float] = {}
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="trainfare-heartbeats", daemon=True)

    @property
    def dropped(self) -> int:
        """Return how many events were dropped because the meter was away for too long."""
        return self._sender.dropped if self._sender is not None else 0

    @property
    def fault(self) -> str:
        """Return why events do not arrive; empty if they do."""
        return self._sender.fault if self._sender is not None else ""

    def progress(self, *, quality: Mapping[str, float] | None = None, **values: float) -> None:
        """Record how far the work has come (step=, tokens=, ...) and how good it is; the next heartbeat has it."""
        try:
            self._progress.update(values)
            if quality:
                self._quality.update(quality)
        except Exception:  # nothing that training passes here may stop it
            return

    def checkpoint(self, **values: float) -> None:
        """Record that all work up to now is safe: what is lost later counts from here."""
        self.progress(quality=None, **values)
        self._send("checkpointed", self._measures())

    def scaled(self, gpus: float, **fields: Any) -> None:
        """Record that the job has another number of GPUs from now on."""
        self._send("scaled", {"gpu_count": gpus, **fields})

    def __enter__(self) -> Self:
        try:
            if self._sender is not None:
                self._sender.start()
                self._beats.start()
        except Exception:  # no thread to be had
            self._sender = None
        self._send("started", self._job)
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: object) -> None:
        try:
            self._ended.set()
            end, fields = _end_of(kind)
            self._send(end, {**self._measures(), **fields})
            if self._sender is not None:
                self._sender.close(CLOSE_WITHIN_S)
        except Exception:  # the training's own exception goes on, and no other
            return

    def _beat(self) -> None:
        while not self._ended.wait(self._heartbeat_s):
            self._send("heartbeat", self._measures(), is_dispensable=True)

    def _measures(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, values in (("progress", self._progress), ("quality", self._quality)):
            kept = {str(key): float(value) for key, value in list(values.items())[:64] if _is_number(value)}
            if kept:
                found[name] = kept
        return found

    def _send(self, kind: str, fields: Mapping[str, Any], *, is_dispensable: bool = False) -> None:
        if self._sender is None:
            return
        try:
            self._count += 1
            event = {
                "source": "sdk",
                "id": f"{self._unique}-{self._count}",
                "time_ms": self._now_ms(),
                "job_id": self._job["job_id"],
                "attempt": self._job["attempt"],
                "type": kind,
            }
            self._sender.put("jobs", {**fields, **event}, is_dispensable=is_dispensable)
        except Exception:  # as above
            return


def run(
    job_id: str | None = None,
    *,
    gpus: float | None = None,
    owner: str | None = None,
    url: str | None = None,
    token: str | None = None,
    attempt: int | None = None,
    heartbeat_s: float = HEARTBEAT_S,
    **fields: Any,
) -> Run:
    """Return a run to use in a `with` statement.

    Args:
        job_id: The job; `TRAINFARE_JOB_ID` or the scheduler's id if absent.
        gpus: GPUs that it holds.
        owner: Who gets its alerts.
        url: Of a worker; `TRAINFARE_URL`, else this machine's.
        token: With the scope `write`; `TRAINFARE_TOKEN`.
        attempt: Counted if absent.
        heartbeat_s: Seconds between two heartbeats.
        **fields: Other fields of `started`: team, project, experiment, labels, gpu_type, region, purchase...
    """
    try:
        environ = os.environ
        name = job_id or environ.get("TRAINFARE_JOB_ID") or environ.get("SLURM_JOB_ID") or _fallback_id()
        job: dict[str, Any] = {key: value for key, value in fields.items() if value is not None}
        job.update({"job_id": name, "attempt": attempt or next_attempt(name)})
        if gpus is not None:
            job["gpu_count"] = gpus
        if owner is not None:
            job["owner"] = owner
        # Of many processes of a job one speaks for it.
        is_first = environ.get("RANK", environ.get("SLURM_PROCID", "0")) in ("", "0")
        address = url or environ.get("TRAINFARE_URL") or DEFAULT_URL
        sender = Sender(address, token or environ.get("TRAINFARE_TOKEN", "")) if is_first else None
        return Run(sender, job, _now_ms, heartbeat_s)
    except Exception:  # a meter that cannot be set up meters nothing
        return Run(None, {"job_id": "", "attempt": 1}, _now_ms)


def _end_of(kind: type[BaseException] | None) -> tuple[str, dict[str, str]]:
    """Return the type of the event that ends an attempt, and its reason."""
    if kind is None:
        return "completed", {}
    if issubclass(kind, KeyboardInterrupt):
        return "cancelled", {}
    if kind.__name__ in _OUT_OF_MEMORY:
        return "failed", {"reason": "out_of_memory"}
    return "failed", {"reason": "user_error"}


def _fallback_id() -> str:
    return f"{socket.gethostname()[:100]}-{os.getpid()}-{int(time.time())}"


def _is_number(value: object) -> bool:
    try:
        number = float(value)  # type: ignore[arg-type]  # training may pass anything
    except Exception:
        return False
    return number == number and abs(number) != float("inf")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
