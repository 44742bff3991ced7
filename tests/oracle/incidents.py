"""The rule `incident`, judged the plain way: minute by minute, from when alerts with a cause fired.

Must import nothing of the project.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tests.oracle.model import MINUTE_MS

TOGETHER_MS = 2 * MINUTE_MS
#: "If the rule opens for the same job within 10 min of clearing (10 min included), it is the same episode"
SAME_EPISODE_MS = 10 * MINUTE_MS
DAY_MS = 24 * 60 * MINUTE_MS
#: "the fourth alert within 3 h ... ends when none was open for 1 h"
RUN_ALERTS, RUN_MS, QUIET_MS = 4, 180 * MINUTE_MS, 60 * MINUTE_MS


class Fired(NamedTuple):
    """An episode of a rule about a job; `resolved_ms`: when it was over for good."""

    cause: str
    job_id: str
    started_ms: int
    resolved_ms: int | None
    ticket_ms: int | None = 0  # from when on it was a ticket, or more; None: never
    page_ms: int | None = None  # from when on it was a page
    owner: str = "ada"
    stood_ms: int | None = None  # since when the job stands still
    usd_per_hour: int = 0  # what the job wastes: all of it of one that does nothing, of a burn what is above the expected rate
    is_burn: bool = False


class Told(NamedTuple):
    cause: str
    started_ms: int
    resolved_ms: int | None
    jobs: int
    ticket_ms: int | None = None
    page_ms: int | None = None
    run_of: str = ""  # the owner, of one of alerts that came one after another
    stood_ms: int | None = None  # of a cluster: since when the first of them stands still


def incidents(
    alerts: Sequence[Fired],
    until_ms: int,
    jobs: int = 3,
    prices_ms: Mapping[str, Sequence[int]] | None = None,
) -> list[Told]:
    """ "Alerts about 3 jobs or more have one cause and opened within 2 min; until 10 min after the last of them is over".

    "Or it is the fourth alert within 3 h of one rule, owner and sweep or run; it ends when none was open for 1 h."
    "As urgent as the most urgent of them, also when one becomes more urgent later".
    `prices_ms`: when `price_jump` told of a cause: for a day there is no incident of it.
    """
    found: list[Told] = []
    for cause in sorted({each.cause for each in alerts}):
        of_cause = [each for each in alerts if each.cause == cause]
        now: Told | None = None
        if cause.startswith('["standstill"'):
            found += _of_cluster(of_cause, until_ms, jobs)
            continue
        for at_ms in range(0, until_ms + 1, MINUTE_MS):
            if now is not None and now.run_of:
                members = [
                    each
                    for each in of_cause
                    if now.started_ms - RUN_MS <= each.started_ms < at_ms and each.owner == now.run_of
                ]
                if all(
                    each.resolved_ms is not None and each.resolved_ms + QUIET_MS <= at_ms for each in members
                ):
                    found.append(now._replace(resolved_ms=at_ms))
                    now = None
                else:
                    now = _more_urgent(now, members, at_ms)
            elif now is not None:
                members = [
                    each for each in of_cause if now.started_ms - TOGETHER_MS <= each.started_ms < at_ms
                ]
                if _are_over(members, at_ms):
                    found.append(now._replace(resolved_ms=at_ms))
                    now = None
                else:
                    now = _more_urgent(
                        now, [each for each in members if _is_near(each, members, jobs)], at_ms
                    )
            recent = _of_time(at_ms, of_cause)
            is_told = any(at_ms - DAY_MS <= each <= at_ms for each in (prices_ms or {}).get(cause, ()))
            if now is None and not is_told and len(_jobs(recent)) >= jobs:
                now = _more_urgent(Told(cause, at_ms, None, len(_jobs(recent))), recent, at_ms)
            one_after_another = _of_run(at_ms, of_cause, jobs)
            if now is None and not is_told and one_after_another:
                told = Told(
                    cause, at_ms, None, len(_jobs(one_after_another)), run_of=one_after_another[0].owner
                )
                now = _more_urgent(told, one_after_another, at_ms)
        if now is not None:
            found.append(now)
    return sorted(found, key=str)


def _of_time(minute_ms: int, alerts: Iterable[Fired]) -> list[Fired]:
    """The alerts that are of the time of a whole minute."""
    return [each for each in alerts if minute_ms - TOGETHER_MS <= each.started_ms < minute_ms]


def _are_over(members: Iterable[Fired], at_ms: int) -> bool:
    """Whether all are over for good: nothing may begin again at this minute, either."""
    return all(
        each.resolved_ms is not None and each.resolved_ms + SAME_EPISODE_MS < at_ms - MINUTE_MS + 1
        for each in members
    )


def _of_cluster(alerts: Sequence[Fired], until_ms: int, jobs: int) -> list[Told]:
    """ "Jobs of 3 owners or more in one cluster stand still since instants within 5 min", the last of 3 h."""
    found: list[Told] = []
    now: Told | None = None
    for at_ms in range(0, until_ms + 1, MINUTE_MS):
        known = [each for each in alerts if each.stood_ms is not None and each.started_ms < at_ms]
        if now is not None:
            members = [
                each for each in known if _is_of(each, now) and each.started_ms >= now.started_ms - RUN_MS
            ]
            if _are_over(members, at_ms):
                found.append(now._replace(resolved_ms=at_ms))
                now = None
            else:
                now = _more_urgent(now, members, at_ms)
        others = [
            each
            for each in known
            if each.started_ms >= at_ms - RUN_MS and (now is None or not _is_of(each, now))
        ]
        together = _standing(others, at_ms, jobs)
        if together:
            if now is not None:
                found.append(now._replace(resolved_ms=at_ms))
            stood_ms = min(each.stood_ms for each in together if each.stood_ms is not None)
            told = Told(alerts[0].cause, at_ms, None, len(_jobs(together)), stood_ms=stood_ms)
            now = _more_urgent(told, together, at_ms)
    return found if now is None else [*found, now]


def _is_of(alert: Fired, told: Told) -> bool:
    assert alert.stood_ms is not None
    assert told.stood_ms is not None
    return abs(alert.stood_ms - told.stood_ms) <= 5 * MINUTE_MS


def _standing(alerts: Sequence[Fired], at_ms: int, owners: int) -> list[Fired]:
    """The first of these that stand still since 5 min, if they are of so many owners and one has been told of just now."""
    for since_ms in sorted({each.stood_ms for each in alerts if each.stood_ms is not None}):
        near = [
            each
            for each in alerts
            if each.stood_ms is not None and 0 <= each.stood_ms - since_ms <= 5 * MINUTE_MS
        ]
        is_new = any(each.started_ms >= at_ms - MINUTE_MS for each in near)
        if is_new and len({each.owner for each in near if each.owner}) >= owners:
            return near
    return []


def _of_run(minute_ms: int, alerts: Iterable[Fired], jobs: int) -> list[Fired]:
    """Those of the last three hours, if they are a run's: four, of one owner, about two jobs or more, and of no one time."""
    recent = [each for each in alerts if minute_ms - RUN_MS <= each.started_ms < minute_ms]
    is_sweep = all(each.cause.startswith('["sweep"') for each in recent)
    of_one_owner = len({each.owner for each in recent}) == 1 and recent[0].owner != ""
    if len(recent) < RUN_ALERTS or len(_jobs(recent)) < 2 or not (is_sweep and of_one_owner):
        return []
    if max(each.started_ms for each in recent) < minute_ms - MINUTE_MS:
        return []  # none opens now
    first_ms = minute_ms - RUN_MS
    of_one_time = range(first_ms, minute_ms + TOGETHER_MS + 1, MINUTE_MS)
    return [] if any(len(_jobs(_of_time(ms, recent))) >= jobs for ms in of_one_time) else recent


def _jobs(alerts: Iterable[Fired]) -> set[str]:
    return {each.job_id for each in alerts}


def _is_near(one: Fired, alerts: Sequence[Fired], jobs: int) -> bool:
    """Whether alerts of so many jobs are of its time."""
    minutes = range(0, one.started_ms + TOGETHER_MS + MINUTE_MS, MINUTE_MS)
    return any(one in (near := _of_time(ms, alerts)) and len(_jobs(near)) >= jobs for ms in minutes)


def _more_urgent(now: Told, alerts: Sequence[Fired], at_ms: int) -> Told:
    """What is told of an incident once one of its alerts is a ticket or a page that none was before."""
    ticket_ms, page_ms = now.ticket_ms, now.page_ms
    if ticket_ms is None and any(each.ticket_ms is not None and each.ticket_ms < at_ms for each in alerts):
        ticket_ms = at_ms
    if page_ms is None and any(each.page_ms is not None and each.page_ms < at_ms for each in alerts):
        page_ms = at_ms
    # "a page where its jobs waste $100/h together", those for the digest and those that are over not counted, nor old burns
    tickets = [
        each
        for each in alerts
        if each.ticket_ms is not None
        and each.ticket_ms < at_ms
        and not _are_over([each], at_ms)
        and not (each.is_burn and each.started_ms < at_ms - DAY_MS)
    ]
    pays = {
        each.job_id: max(of.usd_per_hour for of in tickets if of.job_id == each.job_id) for each in tickets
    }
    if page_ms is None and not now.run_of and sum(pays.values()) >= 100:
        page_ms = at_ms
    told = now._replace(ticket_ms=ticket_ms, page_ms=page_ms)
    return now if told == now else told._replace(jobs=len(_jobs(alerts)))
