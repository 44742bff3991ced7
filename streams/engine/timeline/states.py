"""The effect of each lifecycle event on an attempt: its state, and whether it holds its GPUs.

It implements the table of types in docs/events.md; no times and no quantities here.
"""

from __future__ import annotations

from typing import Final

from schemas.events import JobEvent, JobType

ENDINGS: Final = frozenset({JobType.preempted, JobType.failed, JobType.completed, JobType.cancelled})
#: `resumed` counts as `started` wherever the word is used.
STARTS: Final = frozenset({JobType.allocated, JobType.started, JobType.resumed})

#: The states of jobs that hold something; `metered`: only samples are known.
HOLDING_STATES: Final = ("starting", "running", "suspended", "metered")

_STATE: Final[dict[JobType, str]] = {
    JobType.queued: "queued",
    JobType.allocated: "starting",
    JobType.started: "running",
    JobType.resumed: "running",
    JobType.suspended: "suspended",
    JobType.preempted: "preempted",
    JobType.failed: "failed",
    JobType.completed: "completed",
    JobType.cancelled: "cancelled",
}

_HELD: Final[dict[JobType, bool]] = {
    JobType.queued: False,
    JobType.allocated: True,
    JobType.started: True,
    JobType.resumed: True,
}


def state_after(event: JobEvent, state: str) -> str:
    """The attempt's state after `event`; events that set none leave it unchanged."""
    return _STATE.get(event.type, state)


def held_after(event: JobEvent, held: bool) -> bool:
    """Whether GPUs are held (and billed) after `event`."""
    if event.type == JobType.suspended:
        return event.holds_gpus
    if event.type in ENDINGS:
        return False
    return _HELD.get(event.type, held)
