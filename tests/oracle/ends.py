"""When a job has ended, and for how long after an attempt broke off nobody can say so.

Must import nothing of the project.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.model import MINUTE_MS
from tests.oracle.timeline import Attempt

NEXT_ATTEMPT_MS = 10 * MINUTE_MS


def has_ended(attempts: Sequence[Attempt]) -> bool:
    """Whether all attempts have ended; of one that only moved bytes nobody can say, and it counts for nothing."""
    known = _known(attempts)
    return bool(known) and all(a.own_end is not None or a.superseded_ms is not None for a in known)


def undecided_until_ms(attempts: Sequence[Attempt]) -> int:
    """By "until 10 min have passed without a next attempt"; 0 where none broke off, or the last one says the end."""
    known = _known(attempts)
    ends = [a.own_end for a in known if a.own_end is not None]
    broke_off_ms = [end["time_ms"] for end in ends if end["type"] in ("preempted", "failed")]
    last = known[-1].own_end if known else None
    if not broke_off_ms or (last is not None and last["type"] in ("completed", "cancelled")):
        return 0
    latest_ms: int = max(broke_off_ms)
    return latest_ms + NEXT_ATTEMPT_MS


def _known(attempts: Sequence[Attempt]) -> list[Attempt]:
    return [a for a in attempts if a.events or a.has_samples]
