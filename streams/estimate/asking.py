"""Asks a store for all that an estimate needs, through any reader of SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.kinds import KIND_OF_UNIT, TIME_COMPONENTS
from streams.engine.timeline.attempts import PAID_AT_MOST_MS
from streams.errors import TrainfareError
from streams.estimate import past, ran
from streams.estimate.amounts import half_even
from streams.estimate.elsewhere import SPOT, Elsewhere, contexts
from streams.estimate.past import Past
from streams.estimate.prices import STORED_PRICES, check_gpu_type, price_book, price_instants
from streams.estimate.ran import RanJob

_TIME_UNITS: Final = sorted(unit for unit, kind in KIND_OF_UNIT.items() if kind in TIME_COMPONENTS)
ON_DEMAND: Final = "on_demand"
_GPU_TYPES = "SELECT DISTINCT gpu_type FROM attempts FINAL"


class Records(Protocol):
    """Runs a statement with bound parameters; returns its rows as objects."""

    def __call__(self, sql: str, **parameters: object) -> list[dict[str, object]]:
        """The rows."""
        ...


def stored_book(records: Records, gpu_type: str) -> PriceBook:
    """The price book.

    Raises:
        TrainfareError: No price and no job knows the type of GPU.
    """
    book = price_book(records(STORED_PRICES))
    if gpu_type:
        check_gpu_type(book, gpu_type, (str(row["gpu_type"]) for row in records(_GPU_TYPES)))
    return book


def past_jobs(records: Records, names: Mapping[str, str]) -> Past | None:
    """The completed jobs that are similar to a job with these names; None without any."""
    wanted = past.kinds(names)
    if not wanted:
        return None
    sql, parameters = past.counting(wanted, names)
    kind = past.chosen(wanted, records(sql, **parameters)[0])
    if kind is None:
        return None
    sql, parameters = past.figures(kind, names)
    return past.past_of(kind, names, records(sql, **parameters)[0])


def usual_kinds(
    records: Records, names: Mapping[str, str], job_id: str, until_ms: int
) -> Iterator[past.Kind]:
    """Yield the kinds of a job of which enough others were completed lately, from narrow to wide; they may have no hours."""
    wanted = past.kinds(names)
    if wanted:
        sql, parameters = past.counting_lately(wanted, names, job_id, until_ms)
        row = records(sql, **parameters)[0]
        for place, kind in enumerate(wanted):
            if int(str(row[f"jobs{place}"])) >= past.JOBS_WANTED:
                yield kind


def usual_cost(
    records: Records, names: Mapping[str, str], job_id: str, until_ms: int
) -> tuple[past.Kind, int, int] | None:
    """The narrowest kind of a job of which enough others were completed lately, how many, and their median cost.

    The cost is in nano-dollars. None: there are too few of each.
    """
    for kind in usual_kinds(records, names, job_id, until_ms):
        sql, parameters = past.costing(kind, names, job_id, until_ms)
        row = records(sql, **parameters)[0]
        jobs = int(str(row["jobs"]))
        if jobs >= past.JOBS_WANTED:
            return kind, jobs, half_even(ran.nano_of(str(row["low"])) + ran.nano_of(str(row["high"])), 2)
    return None


def with_past(records: Records, facts: Mapping[str, Any], there: Elsewhere) -> Elsewhere:
    """Return it with the completed jobs there that are similar to a job, whose `job_facts` are given."""
    names = {name: str(facts[name]) for name in ("team", "project", "experiment", "gpus")}
    held = {**facts["fields"], **there.fields}
    names |= {name: str(held.get(name, "")) for name in ("gpu_type", "purchase")}
    return replace(there, past=past_jobs(records, names))


def other_purchase(purchase: str) -> str:
    """What a job that ran is compared with: spot, or on_demand if it ran on spot."""
    return ON_DEMAND if purchase == SPOT else SPOT


def job_facts(records: Records, job_id: str) -> dict[str, Any]:
    """Team, project, experiment, state, GPUs, wall_clock_ms, attempts and the price fields of a job's last attempt.

    Raises:
        TrainfareError: The store does not know it, or it has no attempt.
    """
    found, attempts = records(ran.JOB, job=job_id), records(ran.ATTEMPTS, job=job_id)
    if not found or not attempts:
        raise TrainfareError(f"job {job_id!r}: not in this store; `trainfare jobs` lists what is")
    tried = ran.attempts_of(attempts)
    return {**found[0], "attempts": tried, "fields": dict(tried[-1].fields)}


def ran_job(records: Records, job_id: str, there: Elsewhere, book: PriceBook) -> RanJob:
    """What a job paid, cut where the prices elsewhere change.

    Raises:
        TrainfareError: The store does not know it, it has paid for nothing, or some of its minutes were dropped.
    """
    span = ran_span(records, job_id)
    return span.ran(records, span.instants(there, book))


class RanSpan(NamedTuple):
    """A job without what it paid, which is a sum of so much; it paid by time in [from_ms, until_ms)."""

    job_id: str
    facts: Mapping[str, Any]
    bare: RanJob
    from_ms: int
    until_ms: int
    hours_nano: int

    @property
    def first_ms(self) -> int:
        """The instant by which its first minute is priced: the minute's end."""
        return self.from_ms + 60_000 - 1

    def instants(self, there: Elsewhere, book: PriceBook) -> list[int]:
        """The instants at which prices elsewhere change while it pays, ascending."""
        asked = dict.fromkeys(contexts(self.bare, there).values())
        return price_instants(book, asked, self.first_ms, self.until_ms, self.bare.labels)

    def starts_ms(self, instants: Sequence[int]) -> tuple[int, ...]:
        """The instants at which the price steps are priced that these cut."""
        return (self.first_ms, *instants)

    def ran(self, records: Records, instants: Sequence[int]) -> RanJob:
        """What it paid, cut at these instants.

        Raises:
            TrainfareError: Some of its minutes were dropped.
        """
        rows = records(ran.QUANTITIES, job=self.job_id, instants=[*instants])
        paid = ran.paid_of(rows, self.bare.attempts)
        prices = ran.prices_of(records(ran.PRICES, job=self.job_id, units=_TIME_UNITS))
        job = replace(self.bare, starts_ms=self.starts_ms(instants), paid=paid, prices=prices)
        if job.cost_nano < self.hours_nano:
            raise _dropped(self.job_id)
        return job


def ran_span(records: Records, job_id: str) -> RanSpan:
    """When a job paid, and for how much.

    Raises:
        TrainfareError: The store does not know it, it has paid for nothing, or all of its minutes were dropped.
    """
    # Of a job that goes on, each statement may find more than the one before: the attempts are those of all its cost so far.
    span = records(ran.SPAN, job=job_id)
    hours_nano = ran.nano_of(str(records(ran.HOURS_COST, job=job_id)[0]["usd"]))
    facts = job_facts(records, job_id)
    attempts = facts["attempts"]
    if not span and not hours_nano:
        raise TrainfareError(f"job {job_id!r}: has paid for nothing yet, so there is nothing to compare")
    if not span:
        raise _dropped(job_id)
    from_ms, until_ms = int(str(span[0]["from_ms"])), int(str(span[0]["until_ms"]))
    bare = RanJob(
        facts["team"],
        facts["project"],
        int(facts["wall_clock_ms"]),
        attempts,
        (),
        (),
        labels=tuple(facts["named"]),
    )
    # Traffic may lie long before or after what is paid by time; its minutes have no price elsewhere.
    until_ms = min(until_ms, from_ms + len(attempts) * PAID_AT_MOST_MS)
    return RanSpan(job_id, facts, bare, from_ms, until_ms, hours_nano)


def _dropped(job_id: str) -> TrainfareError:
    return TrainfareError(
        f"job {job_id!r}: its minutes were dropped, or some of them (meter.minutes_retention_days), so it cannot be priced "
        "elsewhere; `trainfare costs` has its hours"
    )
