"""Converts the findings of a worker's audit to alerts: one per failing check and shard."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from streams.clock import Clock
from streams.engine.alerts.meter_rules import BOOKS_UNBALANCED, MeterFinding, books_evidence
from streams.selfcheck.alerts.self_alerts import SelfAlerts
from streams.worker.shards.owned_shard import OwnedShard

#: A partition of a topic, or a shard; other subjects belong to no single shard.
_SHARD: Final = re.compile(r"(?:[a-z]+/|shard )(\d+)")


class AuditFault(Protocol):
    """One failed check."""

    @property
    def check(self) -> str:
        """The name of the check."""
        ...

    @property
    def subject(self) -> str:
        """Where: a partition `jobs/3`, `shard 3`, or something that belongs to no single shard."""
        ...

    @property
    def detail(self) -> str:
        """What is wrong and what to do."""
        ...


class AuditVerdict(Protocol):
    """The parts of the last audit that alerts use."""

    @property
    def as_of_ms(self) -> int:
        """Return when the audit ran, ms since 1970 UTC."""
        ...

    @property
    def faults(self) -> Sequence[AuditFault]:
        """The failed checks."""
        ...


class AuditAlerts:
    """Call `run_once` repeatedly: each audit is processed once per shard."""

    def __init__(
        self,
        verdict: Callable[[], AuditVerdict | None],
        owned: Callable[[], Mapping[int, OwnedShard]],
        alerts: SelfAlerts,
        clock: Clock,
    ) -> None:
        self._verdict = verdict
        self._owned = owned
        self._alerts = alerts
        self._clock = clock
        self._since_ms: WeakKeyDictionary[OwnedShard, int] = WeakKeyDictionary()

    def run_once(self) -> None:
        """Update the alerts of each owned shard by the last audit."""
        verdict, now_ms = self._verdict(), self._clock.now_ms()
        ours = {
            number
            for number, owned in self._owned().items()
            if self._since_ms.setdefault(owned, now_ms) < (-1 if verdict is None else verdict.as_of_ms)
        }
        if verdict is None or not ours:
            return
        found = _by_shard(verdict.faults, ours)
        for number in ours:
            findings = [
                MeterFinding(
                    BOOKS_UNBALANCED, subject, True, verdict.as_of_ms, summary, books_evidence(number)
                )
                for subject, summary in found.get(number, {}).items()
            ]
            self._alerts.replace_all(number, BOOKS_UNBALANCED, findings, verdict.as_of_ms)


def _by_shard(faults: Iterable[AuditFault], ours: set[int]) -> dict[int, dict[str, str]]:
    """Shard -> subject -> summary; a finding of none of our shards belongs to the lowest one."""
    found: dict[int, dict[str, str]] = {}
    for fault in faults:
        match = _SHARD.fullmatch(fault.subject)
        number = int(match[1]) if match is not None else -1
        of_shard = number in ours
        subject = f"{fault.check} of shard {number}" if of_shard else fault.check
        # The first finding represents all of a check, which usually have one cause.
        found.setdefault(number if of_shard else min(ours), {}).setdefault(
            subject, f"{fault.subject}: {fault.detail}"
        )
    return found
