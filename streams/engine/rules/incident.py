"""`incident`: alerts about several jobs that opened at one time have one cause, which one message names.

A function of when their episodes began, and of what was known then: it does not matter what became of them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from schemas.counting import how_many
from schemas.durations import DAY_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.kernels.episode_steps import FLAPS_WITHIN_MS, REOPENS_MS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, short_instant
from streams.engine.rules.rule import (
    DIGEST,
    PAGE,
    PAGE_FROM,
    TICKET,
    URGENCY,
    LedgerRule,
    Margin,
    Threshold,
    from_threshold_on,
    page_from,
)
from streams.engine.rules.shared_cause import PRICE, SILENCE, STANDSTILL, STANDSTILL_RULES, SWEEP, parts_of

_NAME: Final = "incident"
#: Alerts that open within so long before a whole minute are of one time.
TOGETHER_MS: Final = 2 * MINUTE_MS
#: Jobs stand still by one cause if they do so since instants that are no further apart: they report each few minutes.
STOOD_TOGETHER_MS: Final = 5 * MINUTE_MS
_DEAREST: Final = 3
#: Rules about jobs that do nothing: all that such a job pays is wasted.
_IN_VAIN: Final = frozenset((*STANDSTILL_RULES, "held"))
#: What a burn wasted at its opening counts for so long: burn rates are a short memory of the store.
EXPECTED_MS: Final = DAY_MS
CLUSTER: Final = "cluster"
#: What an incident is about, by the kind of its cause, and who can mend it: a record `operator`.
_KINDS: Final = {PRICE: "sku", SILENCE: "source", STANDSTILL: CLUSTER}
_OPERATORS: Final = {PRICE: "prices", SILENCE: "sources", STANDSTILL: "nodes"}
#: Alerts of one owner about jobs of a sweep or a run, one after another: the opening of so many within `FLAPS_WITHIN_MS` flaps, as
#: of one job does.
RUN_ALERTS: Final = 4
RUN: Final = "run"


class SharedAlert(NamedTuple):
    """An alert about a job with a cause that others may share; `resolved_ms`: None while it fires."""

    cause: str
    rule: str
    severity: str
    job_id: str
    owner: str
    team: str
    project: str
    started_ms: int
    resolved_ms: int | None
    nano_per_hour: int  # what the job paid when it opened
    ticket_ms: int | None = None  # when it became a ticket, or more, that began as less; None: it did not
    page_ms: int | None = None  # when it became a page that began as less; None: it did not
    stood_ms: int | None = None  # since when the job stands still; None: not known, or another rule
    #: Of a job that fell silent: its cluster, and the type of its nodes or GPUs.
    pool: tuple[str, str] = ("", "")
    expected_nano: int | None = None  # of a burn: what was expected per hour when it opened; None: not known

    def wasted_at(self, at_ms: int) -> int:
        """What of the rate at its opening is wasted, as far as it counts at an instant: once it is over for good, nothing."""
        if self.resolved_ms is not None and over_ms(self.resolved_ms) <= at_ms:
            return 0
        if self.rule in _IN_VAIN:
            return self.nano_per_hour
        if self.expected_nano is None or self.started_ms < at_ms - EXPECTED_MS:
            return 0
        return max(self.nano_per_hour - self.expected_nano, 0)

    def severity_at(self, at_ms: int) -> str:
        """How urgent it was before an instant: what becomes of it at the instant itself is of the next minute, as its start is."""
        if self.severity == PAGE and (self.page_ms is None or self.page_ms < at_ms):
            return PAGE
        if self.severity != DIGEST and (self.ticket_ms is None or self.ticket_ms < at_ms):
            return TICKET
        return DIGEST


def over_ms(resolved_ms: int) -> int:
    """The first whole minute at which an episode that was over at an instant cannot begin again."""
    return -(-(resolved_ms + REOPENS_MS) // MINUTE_MS) * MINUTE_MS + MINUTE_MS


def minutes_after(at_ms: int) -> range:
    """The whole minutes for which an alert which opened at this instant is of their time."""
    first_ms = at_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS
    return range(first_ms, first_ms + TOGETHER_MS, MINUTE_MS)


def are_incident(alerts: Sequence[SharedAlert], of: Mapping[str, float]) -> bool:
    """Whether alerts of one cause that opened at one time are an incident."""
    return len({each.job_id for each in alerts}) >= of["jobs"]


def is_standstill(cause: str) -> bool:
    """Whether a cause is what jobs of a cluster stand still by."""
    return parts_of(cause)[0] == STANDSTILL


def stands_with(stood_ms: int | None, incident_ms: int | None) -> bool:
    """Whether a job that stands still since then does so by what an incident of its cluster tells of."""
    return (
        stood_ms is not None and incident_ms is not None and abs(stood_ms - incident_ms) <= STOOD_TOGETHER_MS
    )


def stand_together_at(alerts: Iterable[SharedAlert], at_ms: int, jobs: float) -> list[SharedAlert]:
    """Those of a cluster that stand still since one time, where the alert of one opened in the minute before a whole one; none: they do not.

    They are of so many owners (`jobs`). When they opened is of no matter: that goes by what a job pays.
    """
    known = sorted(
        (stood_ms, each.started_ms, each.job_id, each.rule, each)
        for each in alerts
        if (stood_ms := each.stood_ms) is not None and at_ms - FLAPS_WITHIN_MS <= each.started_ms < at_ms
    )
    news = [place for place, each in enumerate(known) if each[1] >= at_ms - MINUTE_MS]
    owners, end = Counter[str](), 0
    for first, (stood_ms, *_, alert) in enumerate(known):
        while end < len(known) and known[end][0] <= stood_ms + STOOD_TOGETHER_MS:
            owners[known[end][-1].owner] += 1
            end += 1
        is_new = bisect_left(news, end) > bisect_left(news, first)
        if is_new and sum(1 for owner, count in owners.items() if owner and count) >= jobs:
            return [each for *_, each in known[first:end]]
        owners[alert.owner] -= 1
    return []


class Opened(Protocol):
    """What counts of an alert about a job where alerts of a cause come one after another."""

    @property
    def owner(self) -> str:
        """Whose job it is about."""
        ...

    @property
    def job_id(self) -> str:
        """The job."""
        ...

    @property
    def started_ms(self) -> int:
        """When it opened."""
        ...


_Opened = TypeVar("_Opened", bound=Opened)


def of_run_at(cause: str, alerts: Iterable[_Opened], at_ms: int, jobs: float) -> list[_Opened]:
    """The alerts of a cause that flap together at a whole minute, in order; none: they do not.

    They are of one owner and of more than one job, as of a run that is submitted again under another id. Of so many jobs that
    opened together (`jobs`) there is an incident; what comes one after another is none.
    """
    if parts_of(cause)[0] != SWEEP:
        return []
    recent = sorted(
        (each for each in alerts if at_ms - FLAPS_WITHIN_MS <= each.started_ms < at_ms), key=_when_opened
    )
    if not recent or recent[-1].started_ms < at_ms - MINUTE_MS:
        return []  # none opens now
    owners = {each.owner for each in recent}
    if (
        len(recent) < RUN_ALERTS
        or len({each.job_id for each in recent}) < 2
        or len(owners) != 1
        or "" in owners
    ):
        return []
    near: dict[int, set[str]] = {}
    for each in recent:
        for minute_ms in minutes_after(each.started_ms):
            near.setdefault(minute_ms, set()).add(each.job_id)
    return [] if any(len(of_minute) >= jobs for of_minute in near.values()) else recent


def _when_opened(alert: Opened) -> tuple[int, str]:
    return alert.started_ms, alert.job_id


def subject_of(cause: str, *, is_run: bool = False) -> tuple[str, str]:
    """The kind and the name of what the alert of a cause is about."""
    kind, *about = parts_of(cause)
    return RUN if is_run else _KINDS.get(kind, SWEEP), "/".join(filter(None, about))


def operator_of(cause: str) -> str:
    """Who can mend a cause: the name of a record `operator`; '': the jobs' own people."""
    return _OPERATORS.get(parts_of(cause)[0], "") if cause else ""


def severity_of(
    alerts: Iterable[SharedAlert], at_ms: int, of: Mapping[str, float], *, is_run: bool = False
) -> str:
    """How urgent an incident is at an instant: as the most urgent of its alerts, and a page where its jobs waste enough together.

    Jobs that do nothing waste all that they pay, those that burn what is above the expected rate. Alerts for the digest do not
    count, nor those that are over, nor do jobs that ran one after another.
    """
    severities = {each: each.severity_at(at_ms) for each in alerts}
    urgent = [each for each, severity in severities.items() if severity != DIGEST]
    wasted = {} if is_run else _wasted(urgent, at_ms)
    if wasted and sum(wasted.values()) >= of[PAGE_FROM] * NANO_PER_USD:
        return PAGE
    return max([DIGEST, *severities.values()], key=URGENCY.index)


def _wasted(alerts: Iterable[SharedAlert], at_ms: int) -> dict[str, int]:
    """Nano-dollars per hour that each job wastes at an instant; jobs that waste nothing are left out."""
    wasted: dict[str, int] = {}
    for each in alerts:
        if nano := each.wasted_at(at_ms):
            wasted[each.job_id] = max(wasted.get(each.job_id, 0), nano)
    return wasted


def finding(
    of: LedgerSettings,
    alerts: Sequence[SharedAlert],
    at_ms: int,
    operator: str,
    titles: Mapping[str, str],
    *,
    is_run: bool = False,
) -> LedgerFinding:
    """The sentence and the evidence of the alerts of one cause.

    `operator`: who gets it, unless they have one owner. `titles`: of rules by name. `is_run`: they opened one after
    another, see `of_run_at`.
    """
    cause = alerts[0].cause
    kind, name = subject_of(cause, is_run=is_run)
    rates = {each.job_id: each.nano_per_hour for each in alerts}
    dearest = sorted(rates, key=lambda job_id: (-rates[job_id], job_id))[:_DEAREST]
    # Jobs that ran one after another do not pay at one time.
    nano = alerts[-1].nano_per_hour if is_run else sum(rates.values())
    above_nano = sum(_wasted((each for each in alerts if each.expected_nano), at_ms).values())
    stood_ms = min((each.stood_ms for each in alerts if each.stood_ms is not None), default=None)
    pools = {each.pool for each in alerts}
    said, advice = _words(cause, titles, at_ms, stood_ms, pools.pop() if len(pools) == 1 else ("", ""))

    def run_text(at_most: int) -> str:
        rule, _, *names = parts_of(cause)[1:]
        last = short(alerts[-1].job_id, at_most // 2)
        return (
            f"{how_many(len(alerts), 'alert')} in 3 h about {how_many(len(rates), 'job')} of {short(names[-1], at_most)}: {titles.get(rule, rule)}, the last {last}"
            f" at {rounded_usd(nano)}/h; stays open until 1 h without one"
        )

    def text(at_most: int) -> str:
        jobs = ", ".join(short(job_id, at_most // 2) for job_id in dearest)
        above = f", {rounded_usd(above_nano)}/h above what is expected," if above_nano else ""
        return f"{how_many(len(rates), 'job')} at {rounded_usd(nano)}/h{above} {said(at_most)} (most: {jobs})"

    if operator_of(cause) and (operator or not is_standstill(cause)):
        owner = operator
    else:
        # Of a sweep of several people, whoever pays most.
        owner = next((each.owner for each in alerts if each.job_id == dearest[0]), "")
    return LedgerFinding(
        _NAME, severity_of(alerts, at_ms, of.thresholds, is_run=is_run), kind, name, at_ms,
        sentence(run_text if is_run else text, _RUN_ADVICE if is_run else advice),
        "SELECT started, rule, subject_name, owner, team, opened_usd_per_hour, status, summary FROM alerts FINAL"
        f" WHERE {_are_of(cause, stood_ms)} AND started >= fromUnixTimestamp64Milli({_since_ms(alerts, at_ms, is_run=is_run):d}, 'UTC')"
        " ORDER BY opened_usd_per_hour DESC, subject_name LIMIT 100",
        float(len(rates)), nano, 0, owner, _common([each.team for each in alerts]),
        _common([each.project for each in alerts]), cause, (*margins(of.thresholds, alerts, is_run=is_run),), stood_ms,
    )  # fmt: skip


def _since_ms(alerts: Sequence[SharedAlert], at_ms: int, *, is_run: bool) -> int:
    """From when on the alerts of an incident began."""
    return (
        min(each.started_ms for each in alerts)
        if is_run or is_standstill(alerts[0].cause)
        else at_ms - TOGETHER_MS
    )


def _are_of(cause: str, stood_ms: int | None) -> str:
    """The SQL condition of the alerts of a cause."""
    kind, *about = parts_of(cause)
    if kind != STANDSTILL:
        return f"shared_cause = {quoted(cause)}"
    rules = ", ".join(quoted(rule) for rule in STANDSTILL_RULES)
    jobs = f"SELECT job_id FROM jobs FINAL WHERE cluster = {quoted(about[0])}"
    near = (
        f"fromUnixTimestamp64Milli({(stood_ms or 0) + ms:d}, 'UTC')"
        for ms in (-STOOD_TOGETHER_MS, STOOD_TOGETHER_MS)
    )
    return f"rule IN ({rules}) AND subject_name IN ({jobs}) AND stood_since BETWEEN {' AND '.join(near)}"


_RUN_ADVICE: Final = "stop or mend the run"


def _words(
    cause: str, titles: Mapping[str, str], at_ms: int, stood_ms: int | None, pool_of_all: tuple[str, str]
) -> tuple[Callable[[int], str], str]:
    """What the jobs have in common, given how long names may be, and what to do; `pool_of_all`: the only one of them."""
    kind, *about = parts_of(cause)
    if kind == PRICE:
        return lambda at_most: f"burn by the price of {short(about[0], at_most)}", "check that price"
    if kind == SILENCE:
        (source, cluster, pool) = (about[0], *pool_of_all) if len(about) == 1 else ("", *about)
        where = [f"{pool} nodes" if pool else "", f"of cluster {cluster}" if cluster else ""]
        place = " ".join(filter(None, where)).removeprefix("of ")
        return (
            lambda at_most: (
                (f"on {short(place, 2 * at_most)} " if place else "")
                + "fell silent at one time"
                + (f", last heard of by source {short(source, at_most)}" if source else "")
            ),
            "look at their exporter or collector",
        )
    if kind == STANDSTILL:
        return (
            lambda at_most: (
                f"of several owners in cluster {short(about[0], at_most)} stand still since about"
                f" {short_instant(stood_ms or at_ms, at_ms)} UTC"
            ),
            "look at what they share, as its file system or network",
        )
    rule, _, *names = about
    return (
        lambda at_most: (
            f"of {short(names[-1], at_most)} have one alert at one time: {titles.get(rule, rule)}"
        ),
        "stop or mend them together",
    )


def _common(values: Sequence[str]) -> str:
    """The value of all; '': there is none."""
    return values[0] if len(set(values)) == 1 else ""


def margins(of: Mapping[str, float], alerts: Sequence[SharedAlert], *, is_run: bool = False) -> list[Margin]:
    """How many jobs have alerts of one cause that opened at one time, or how many alerts came one after another."""
    if is_run:
        return [from_threshold_on("alerts of one cause within 3 h", float(len(alerts)), float(RUN_ALERTS))]
    if alerts and is_standstill(alerts[0].cause):
        owners = len({each.owner for each in alerts if each.owner})
        return [from_threshold_on("owners whose jobs stand still since one time", float(owners), of["jobs"])]
    jobs = len({each.job_id for each in alerts})
    return [from_threshold_on("jobs with alerts of one cause at one time", float(jobs), of["jobs"])]


RULE: Final = LedgerRule(
    name=_NAME,
    title="Incident",
    severity=TICKET,
    about="`sku`, `source`, `sweep`, `run`, `cluster`",
    holds=(
        "alerts about 3 jobs or more have one cause and opened within 2 min, or jobs of 3 owners or more in one cluster stand still"
        " (`idle_gpus`, `stalled`) since instants within 5 min; it ends 10 min after the last of them. Or it is the"
        " fourth alert within 3 h of one rule, owner and sweep or run; it ends when none was open for 1 h. It is as urgent as the"
        " most urgent of them, also when one becomes more urgent later, and a page where its jobs waste $100/h together:"
        " all that those pay which do nothing (`idle_gpus`, `stalled`, `held`), and of burns what is above the expected rate"
    ),
    runbook="messages.md#incidents",
    yields_to=("price_jump",),
    thresholds={"jobs": Threshold(3, 2, 1e6, "jobs with alerts of one cause that opened within 2 min", True)}
    | page_from(
        "dollars per hour that jobs pay together which do nothing, or which burns have above what is expected"
    ),
    each="cause",
    finding=finding,
    margins=margins,
)
