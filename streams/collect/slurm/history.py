"""Makes the events of all that sacct has of a time: for a backfill, months at once.

They have the ids that the collector gives them. A record that several answers have is accounted for once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

from streams.accounts.account import Account, KeyedAccount
from streams.collect.collector import CollectedEvent, EventBatch
from streams.collect.judging import Refusal, add_refused, without_refused
from streams.collect.slurm.accounting import Accounting, Ask, key_of
from streams.collect.slurm.events import OddRecordError, SeenAttempt, events_of, free_rule, is_over
from streams.collect.slurm.job_numbers import JobNumbers
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import EntryKey
from streams.collect.slurm.tres import unknown_accelerators
from streams.errors import WrongUseError

#: Memory is bounded by what ended in so long.
WINDOW_S: Final = 86_400


class HistoryPart(NamedTuple):
    """The events of what ended in some time, and what became of each record of it."""

    events: list[CollectedEvent]
    account: Account


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
    counted: set[int] = set()
    refused: dict[str, Refusal] = {}
    for from_s in range(since_s, until_s, WINDOW_S):
        events: list[CollectedEvent] = []
        faults: dict[EntryKey, str] = {}
        account = KeyedAccount()
        for seen in accounting.ended(from_s, min(from_s + WINDOW_S, until_s), {}, (), faults):
            key = key_of(seen.record)
            if is_over(seen.record, since_s):
                account.free(key, "before_since")
                continue
            try:
                events.extend(keyed.event for keyed in events_of(seen, options, since_s))
            except OddRecordError as fault:
                account.not_understood(key, fault.reason, str(fault))
            except ValueError as fault:
                account.not_understood(key, "malformed", str(fault))
            else:
                _account(seen, options, numbers, account)
        for entry, said in faults.items():
            account.not_understood(entry, "malformed", said)
        known = len(refused)
        kept = without_refused(EventBatch(events, {}), refused).events
        yield HistoryPart(
            kept, add_refused(account.total(counted), dict(islice(refused.items(), known, None)))
        )


def _account(seen: SeenAttempt, options: Options, numbers: JobNumbers, account: KeyedAccount) -> None:
    """Account for a record whose events are made."""
    record = seen.record
    key, rule, reused = key_of(record), free_rule(seen, options), numbers.reused(record)
    if odd := unknown_accelerators(record.allocated or record.requested, options):
        account.not_understood(
            key, "unknown_gres", f"job {record.raw_id} holds {odd}, and nothing says how many GPUs one is"
        )
    elif rule:
        account.free(key, rule)
    elif reused:
        account.not_understood(key, "numbers_reused", f"{reused}; read the time before apart")
    elif record.suspended_s and not options.suspended_hold_gpus:
        said = f"job {record.raw_id} was suspended for {record.suspended_s} s, and sacct does not say when: they are paid"
        account.not_understood(key, "no_suspend_times", said)
    else:
        account.metered(key)
