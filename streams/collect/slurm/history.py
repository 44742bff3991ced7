"""Makes the events of all that sacct has of a time: for a backfill, months at once.

They have the ids that the collector gives them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from streams.collect.collector import CollectedEvent
from streams.collect.slurm.accounting import Accounting, Ask
from streams.collect.slurm.events import events_of, free_rule, is_over
from streams.collect.slurm.job_numbers import JobNumbers
from streams.collect.slurm.options import Options
from streams.collect.slurm.tres import unknown_accelerators
from streams.errors import WrongUseError

#: Memory is bounded by what ended in so long.
WINDOW_S: Final = 86_400


class HistoryPart(NamedTuple):
    """The events of what ended in some time, and what of it could not be read."""

    events: list[CollectedEvent]
    faults: list[str]


def history(options: Options, ask: Ask, since_s: int, until_s: int) -> Iterator[HistoryPart]:
    """Yield what ended from one time to the other, a window at a time; what ran before `since_s` begins there.

    Raises:
        WrongUseError: The options say that there is no accounting.
        SourceUnavailableError: sacct cannot be read.
    """
    if not options.use_sacct:
        raise WrongUseError("[slurm] has use_sacct = false: without sacct there is no history to read")
    accounting = Accounting(options.sacct_command, ask)
    numbers = JobNumbers()
    for from_s in range(since_s, until_s, WINDOW_S):
        part = HistoryPart([], [])
        for seen in accounting.ended(from_s, min(from_s + WINDOW_S, until_s), {}, (), part.faults):
            if is_over(seen.record, since_s):
                continue
            if (reused := numbers.reused(seen.record)) and not free_rule(seen, options):
                part.faults.append(
                    f"{reused}; set another job_id_prefix from then on, and read the time before apart"
                )
            if seen.record.suspended_s and not options.suspended_hold_gpus:
                part.faults.append(
                    f"job {seen.record.raw_id} was suspended for {seen.record.suspended_s} s, and sacct does not say when: they are paid"
                )
            held = seen.record.allocated or seen.record.requested
            if odd := unknown_accelerators(held, options):
                part.faults.append(
                    f"job {seen.record.raw_id} holds {odd}, and nothing says how many GPUs one is"
                )
            try:
                part.events.extend(keyed.event for keyed in events_of(seen, options, since_s))
            except ValueError as fault:
                part.faults.append(str(fault))
        yield part
