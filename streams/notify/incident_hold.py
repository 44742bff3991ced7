"""Holds alerts that may share their cause with others until it is known whether one message tells of all of them.

Others are alerts of many jobs at one time, and one of another rule about the same job, or about its run (`inhibited_by`). Whether a message tells of them is
a function of what is stored, the same that the rule `incident` goes by, so a restart decides the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, MINUTE_MS
from streams.clock import Clock
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.ledger_rules.incidents import EXPLAINED_MS
from streams.engine.ledger_rules.subject import ALL_NODES, FLEET
from streams.engine.rules.incident import minutes_after, of_run_at
from streams.engine.rules.registry import BY_NAME
from streams.engine.rules.rule import JOB, PAGE, is_above
from streams.engine.rules.shared_cause import PRICE, STANDSTILL_RULES, SWEEP, of_standstill, parts_of
from streams.notify.history import SAID_FROM_MS, StoredDeliveries
from streams.notify.intake import Passage
from streams.notify.notice import Notice
from streams.notify.shared_cause_row import SharedCauseRow
from streams.notify.store_faults import DeliveryFaults
from streams.threads import Threads

#: Others of the cause may be stored by other workers: it is asked again so often meanwhile.
LOOK_MS: Final = 2_000
#: Rules about the use of GPUs are judged every 5 min: after that it is known whether such an alert still fired at an instant.
SURE_MS: Final = 6 * MINUTE_MS
#: An alert that one of a rule judged by the minute may tell of waits so many times as long, up to so long.
_MINUTE_WAITS: Final = 3
_MINUTE_WAIT_MS: Final = 30_000
#: A price that jumped is judged at the end of its minute, once that is stored: until then nobody is notified of the burn that it causes.
PRICE_SURE_MS: Final = 2 * MINUTE_MS
#: A ticket about a job that stands still waits for those of other jobs of its cluster, which are looked at in turns of 5 min.
_STANDSTILL_WAITS: Final = 36
#: And one about a job of a sweep for those of its other jobs: where they all hang, that may be found in different turns.
_SWEEP_WAITS: Final = 12
#: An alert about a run that began earlier is not looked for.
_LOOP_AT_MOST_MS: Final = 7 * DAY_MS


class IncidentSettings(NamedTuple):
    """From how many jobs on alerts of a cause are an incident, and the owner who is notified of it."""

    jobs: int
    owner: str
    names_prices: bool = True  # `price_jump` is on


_OTHERS: Final = "for others of its cause"
_PRICE: Final = "for `price_jump`, which may tell of its price"


@dataclass(frozen=True)
class _HeldAlert:
    passage: Passage
    due_ms: int  # monotonic
    reason: str = _OTHERS
    said_due_ms: int | None = None  # up to when it was said to wait
    is_inhibited: bool = False  # by what was stored when it was due first: looked at once more
    alone_ms: int | None = (
        None  # when it is due if too few others have jobs in its cluster; None: that is known, or it waits for none
    )


class CauseAlerts:
    """The stored alerts of one cause: how many jobs have some of the time of each whole minute, and those about no job."""

    def __init__(self, rows: Iterable[SharedCauseRow] = ()) -> None:
        self._others: list[SharedCauseRow] = []
        self._of_jobs: list[SharedCauseRow] = []
        self._jobs: dict[int, set[str]] = {}
        for row in rows:
            if row.subject_kind != JOB:
                self._others.append(row)
                continue
            self._of_jobs.append(row)
            for at_ms in minutes_after(row.started_ms):
                self._jobs.setdefault(at_ms, set()).add(row.subject_name)

    def named_by(self, alert: Alert, is_received: Callable[[str], bool] = lambda _: True) -> str:
        """Which alert about no job tells of the cause, in words; '': none does. `is_received`: whether an owner gets messages."""
        tellers = (
            row.alert_id
            for row in self._others
            if row.tells_of(alert.started_ms, alert.owner, alert.stood_ms) and is_received(row.owner)
        )
        return next((f"{each} tells of its cause" for each in tellers), "")

    def covered_by(self, alert: Alert, jobs: int) -> str:
        """Which alert tells of the cause, in words; '': none does, or will. From so many jobs on one does."""
        if named_by := self.named_by(alert):
            return named_by
        # One of the whole minutes that look at it opens the incident.
        for at_ms in minutes_after(alert.started_ms):
            near = self._jobs.get(at_ms, set())
            if len(near) + (alert.subject_name not in near) >= jobs:
                return "one of several alerts of one cause at one time"
        others = (row for row in self._of_jobs if row.alert_id != alert.alert_id)
        at_ms = minutes_after(alert.started_ms)[0]
        of_run = of_run_at(alert.shared_cause, [*others, _as_row(alert)], at_ms, jobs)
        return f"one of {len(of_run)} alerts of one run within 3 h" if of_run else ""


def _as_row(alert: Alert) -> SharedCauseRow:
    return SharedCauseRow(
        alert.shared_cause,
        alert.alert_id,
        alert.rule,
        alert.subject_kind,
        alert.subject_name,
        alert.started_ms,
        alert.resolved_ms,
        alert.owner,
        alert.stood_ms,
    )


_NOTHING: Final = CauseAlerts()


def causes_of(alert: Alert, clusters: Mapping[str, str]) -> list[str]:
    """The causes that others may share with an alert: its own, and what jobs of its cluster stand still by; `clusters`: by job."""
    in_cluster = of_standstill(alert.rule, clusters.get(alert.subject_name, ""))
    return [*filter(None, (alert.shared_cause, in_cluster))]


def covered(
    alert: Alert,
    shares: Iterable[str],
    causes: Mapping[str, CauseAlerts],
    jobs: int,
    is_received: Callable[[str], bool] = lambda _: True,
) -> str:
    """Which alert tells of one of its causes, in words; '': none does, or will."""
    for cause in shares:
        of = causes.get(cause, _NOTHING)
        # Which others of its cluster count is the judge's to say.
        found = of.covered_by(alert, jobs) if cause == alert.shared_cause else of.named_by(alert, is_received)
        if found:
            return found
    return ""


def is_of_price(alert: Alert) -> bool:
    """Whether a price explains it."""
    return _is_of(PRICE, alert)


def _is_of(kind: str, alert: Alert) -> bool:
    return bool(alert.shared_cause) and parts_of(alert.shared_cause)[0] == kind


def wait_for_cluster(rule: str, severity: str, wait_ms: int) -> int:
    """How long a ticket about a job that stands still waits for those of other jobs of its cluster; 0: the alert is none."""
    return _STANDSTILL_WAITS * wait_ms if rule in STANDSTILL_RULES and severity != PAGE else 0


def wait_of(alert: Alert, wait_ms: int, *, for_cluster: bool = True) -> int:
    """How long an alert waits for others, of jobs of its cluster, too, or not (`for_cluster`); `wait_ms`: the setting.

    Prices, runs and clusters are judged by the minute, rules about jobs at each tick.
    """
    stands = for_cluster and alert.rule in STANDSTILL_RULES
    if for_cluster and (waits_ms := wait_for_cluster(alert.rule, alert.severity, wait_ms)):
        return waits_ms
    if alert.rule in STANDSTILL_RULES and alert.severity != PAGE and _is_of(SWEEP, alert):
        return _SWEEP_WAITS * wait_ms
    is_by_minute = is_of_price(alert) or _about_runs(inhibitors_of(alert.rule)) or stands
    return max(wait_ms, min(_MINUTE_WAITS * wait_ms, _MINUTE_WAIT_MS)) if is_by_minute else wait_ms


def inhibitors_of(rule: str) -> tuple[str, ...]:
    """The rules that name the same cause as this one, which may be one of a user's own."""
    return BY_NAME[rule].inhibited_by if rule in BY_NAME else ()


def inhibited_by(alert: Alert, others: Iterable[Alert]) -> str:
    """Which of these tells of the alert's cause, in words; '': none.

    It fired when the alert began, about the same job, or about all nodes, of whose cost this alert has most; and it is as severe,
    or names at least half of the dollars per hour that this one does: two rules measure one waste differently near a limit.
    """
    rules = inhibitors_of(alert.rule)
    for other in others:
        if (
            other.rule in rules
            and (other.subject_name == alert.subject_name or _is_most_of(alert, other))
            and other.started_ms <= alert.started_ms
            and (other.resolved_ms is None or other.resolved_ms > alert.started_ms)
            and (
                not is_above(alert.severity, other.severity)
                or 2 * other.usd_nano_per_hour >= alert.usd_nano_per_hour > 0
            )
        ):
            return f"{other.alert_id} tells of its cause"
    return ""


def _is_most_of(alert: Alert, other: Alert) -> bool:
    """Whether an alert about nodes is about most of what one about all nodes is about, by dollars per hour."""
    if other.subject_kind != FLEET or alert.subject_kind == JOB:
        return False
    return 2 * alert.usd_nano_per_hour >= other.usd_nano_per_hour


def _about_runs(rules: Iterable[str]) -> set[str]:
    """Those whose alerts are about all jobs of a run."""
    return {rule for rule in rules if rule in BY_NAME and BY_NAME[rule].is_about_run}


def inhibitors_in_runs(records: StoredDeliveries, alerts: Iterable[Alert]) -> Sequence[Alert]:
    """What is stored about the runs of these alerts' jobs by rules that may name their cause, each as if about that job; it blocks."""
    of = [alert for alert in alerts if _about_runs(inhibitors_of(alert.rule))]
    if not of:
        return ()
    rules = _about_runs(rule for alert in of for rule in inhibitors_of(alert.rule))
    since_ms = min(alert.started_ms for alert in of) - _LOOP_AT_MOST_MS
    return records.about_runs(rules, {alert.subject_name for alert in of}, since_ms)


class IncidentHold:
    """Call `hold` with what is to be sent, and `decided` for what may go on."""

    def __init__(
        self,
        records: StoredDeliveries,
        clock: Clock,
        faults: DeliveryFaults,
        wait_ms: int,
        timeout_ms: int,
        waits: Callable[[Alert, str, int, str], None],
    ) -> None:
        """`waits` is called with an alert that waits, for whose owner, how long yet at most (ms), and what for, in words."""
        self._waits = waits
        self._records = records
        self._clock = clock
        self._faults = faults
        self._wait_ms = wait_ms
        self._timeout_ms = timeout_ms
        self._threads = Threads("incidents")
        self._held: list[_HeldAlert] = []
        self._due_ms: dict[str, int] = {}  # of what is held, by alert id: an end waits behind its beginning
        self._look_ms = 0
        #: By which settings alerts of a cause are an incident that somebody is notified of; None: they are none.
        self.settings_of: Callable[[Alert], IncidentSettings | None] = lambda _: None
        #: Whether an owner gets messages: of a cluster whoever that is differs from incident to incident.
        self.is_received: Callable[[str], bool] = lambda _: True

    def __len__(self) -> int:
        return len(self._held)

    def due_ms(self) -> int | None:
        """When to look (monotonic ms); None: nothing is held."""
        return self._look_ms if self._held else None

    def hold(self, passage: Passage) -> bool:
        """Hold what may be part of an incident; what was sent already is over for whoever has it."""
        alert = passage.alert
        if isinstance(alert, Notice) or passage.was_notified:
            return False
        shares = (
            alert.subject_kind == JOB
            and (alert.shared_cause or alert.rule in STANDSTILL_RULES)
            and self.settings_of(alert) is not None
        )
        if not inhibitors_of(alert.rule) and not shares:
            return False
        now_ms = self._clock.monotonic_ms()
        is_new = alert.status == FIRING
        wait_ms = wait_of(alert, self._wait_ms, for_cluster=bool(shares)) if is_new else 0
        due_ms = max(now_ms + wait_ms, self._due_ms.get(alert.alert_id, 0))
        alone_ms = None
        if is_new and shares and alert.rule in STANDSTILL_RULES:
            alone_ms = now_ms + wait_of(alert, self._wait_ms, for_cluster=False)
        self._look_ms = now_ms if not self._held else min(self._look_ms, now_ms + LOOK_MS)
        self._held.append(_HeldAlert(passage, due_ms, alone_ms=alone_ms))
        self._due_ms[alert.alert_id] = due_ms
        return True

    def _keep(self, held: list[_HeldAlert]) -> None:
        self._held = held
        self._due_ms = {each.passage.alert.alert_id: each.due_ms for each in held}

    def _say_waits(self) -> None:
        """Say what waits for long, once each time that the end of its wait becomes known."""
        now_ms = self._clock.monotonic_ms()
        held: list[_HeldAlert] = []
        for each in self._held:
            is_new = each.alone_ms is None and each.due_ms != each.said_due_ms
            if is_new and each.due_ms - now_ms > SAID_FROM_MS:
                alert = each.passage.alert
                self._waits(alert, alert.owner, each.due_ms - now_ms, each.reason)
                each = replace(each, said_due_ms=each.due_ms)
            held.append(each)
        self._held = held

    def hurry(self) -> None:
        """Wait for nothing more: nobody adds alerts."""
        self._keep([_HeldAlert(each.passage, 0, is_inhibited=True) for each in self._held])
        self._look_ms = 0

    def release(self, shards: Collection[int]) -> None:
        """Drop what is of shards that are no longer ours."""
        self._keep([each for each in self._held if each.passage.shard not in shards])

    async def decided(self) -> list[tuple[Passage, str]]:
        """What may go on, in order, each with why nobody needs it; '': it is to be sent."""
        now_ms = self._clock.monotonic_ms()
        if not self._held or now_ms < self._look_ms:
            return []
        self._look_ms = now_ms + LOOK_MS
        causes: Mapping[str, CauseAlerts] = {}
        clusters: Mapping[str, str] = {}
        inhibitors: Sequence[Alert] = ()
        jumped: Collection[str] = ()
        alerts = [each.passage.alert for each in self._held]
        try:
            clusters = await self._clusters([alert for alert in alerts if alert.rule in STANDSTILL_RULES])
            await self._leave_alone(clusters)
            causes = await self._causes(alerts, clusters)
            jumped = await self._jumped(
                [alert for alert in alerts if alert.status == FIRING and is_of_price(alert)]
            )
            inhibitors = await self._inhibitors([alert for alert in alerts if inhibitors_of(alert.rule)])
            self._faults.worked("read_alerts")
        except Exception as fault:  # noqa: BLE001 - a failing delivery must not stop metering
            self._faults.failed("read_alerts", fault)
        found: list[tuple[Passage, str]] = []
        kept: list[_HeldAlert] = []
        waits: dict[str, int] = {}  # an end waits behind its beginning
        # As it is now: shards may have been released meanwhile.
        for each in self._held:
            alert = each.passage.alert
            shares = causes_of(alert, clusters)
            of = self.settings_of(alert) if shares else None
            covered_by = "" if of is None else covered(alert, shares, causes, of.jobs, self.is_received)
            if covered_by:
                found.append((each.passage, covered_by))
            elif (due_ms := max(each.due_ms, waits.get(alert.alert_id, 0))) > now_ms:
                kept.append(replace(each, due_ms=due_ms))
                waits[alert.alert_id] = due_ms
            elif alert.alert_id in jumped and of is not None and of.names_prices and not each.is_inhibited:
                kept.append(replace(each, due_ms=now_ms + PRICE_SURE_MS, is_inhibited=True, reason=_PRICE))
                waits[alert.alert_id] = now_ms + PRICE_SURE_MS
            elif (
                (inhibitor := inhibited_by(alert, inhibitors))
                and alert.status == FIRING
                and not each.is_inhibited
            ):
                # Its end may be judged and not stored yet; nobody waits for a message whose cause another one named.
                reason = f"to see whether {inhibitor}"
                kept.append(replace(each, due_ms=now_ms + SURE_MS, is_inhibited=True, reason=reason))
                waits[alert.alert_id] = now_ms + SURE_MS
            else:
                found.append((each.passage, inhibitor))
        self._keep(kept)
        self._say_waits()
        if self._held:
            self._look_ms = min([self._look_ms, *(each.due_ms for each in self._held)])
        return found

    async def _jumped(self, alerts: Sequence[Alert]) -> Collection[str]:
        if not alerts:
            return ()
        reading = self._threads.run(self._records.jumped_prices, alerts)
        return await asyncio.wait_for(reading, self._timeout_ms / 1000)

    async def _inhibitors(self, alerts: Sequence[Alert]) -> Sequence[Alert]:
        if not alerts:
            return ()
        rules = {rule for alert in alerts for rule in inhibitors_of(alert.rule)}
        subjects = {alert.subject_name for alert in alerts} | {ALL_NODES}
        reading = self._threads.run(self._records.about_subjects, rules, subjects)
        found = await asyncio.wait_for(reading, self._timeout_ms / 1000)
        of_runs = self._threads.run(inhibitors_in_runs, self._records, alerts)
        return [*found, *await asyncio.wait_for(of_runs, self._timeout_ms / 1000)]

    async def _leave_alone(self, clusters: Mapping[str, str]) -> None:
        """Let no alert wait for others of its cluster where too few owners have jobs for an incident."""
        asked = [each.passage for each in self._held if each.alone_ms is not None]
        if not asked:
            return
        places = {clusters.get(each.alert.subject_name, "") for each in asked} - {""}
        reading = self._threads.run(self._records.owners_in, places)
        owners = await asyncio.wait_for(reading, self._timeout_ms / 1000)
        self._keep(
            [self._alone(each, clusters, owners) if each.passage in asked else each for each in self._held]
        )

    def _alone(
        self, held: _HeldAlert, clusters: Mapping[str, str], owners: Mapping[str, set[str]]
    ) -> _HeldAlert:
        alert = held.passage.alert
        of = self.settings_of(alert)
        there = owners.get(clusters.get(alert.subject_name, ""), ())
        due_ms = held.due_ms
        if held.alone_ms is not None and (of is None or len(there) < of.jobs):
            due_ms = held.alone_ms
        return replace(held, due_ms=due_ms, alone_ms=None)

    async def _clusters(self, alerts: Sequence[Alert]) -> Mapping[str, str]:
        if not alerts:
            return {}
        reading = self._threads.run(self._records.clusters_of, {alert.subject_name for alert in alerts})
        return await asyncio.wait_for(reading, self._timeout_ms / 1000)

    async def _causes(
        self, alerts: Sequence[Alert], clusters: Mapping[str, str]
    ) -> Mapping[str, CauseAlerts]:
        causes = {cause for alert in alerts for cause in causes_of(alert, clusters)}
        if not causes:
            return {}
        since_ms = min(alert.started_ms for alert in alerts) - EXPLAINED_MS
        reading = self._threads.run(self._records.of_causes, causes, since_ms)
        rows: dict[str, list[SharedCauseRow]] = {}
        for row in await asyncio.wait_for(reading, self._timeout_ms / 1000):
            rows.setdefault(row.shared_cause, []).append(row)
        return {cause: CauseAlerts(of_cause) for cause, of_cause in rows.items()}
