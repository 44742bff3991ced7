"""A job's receipt: its figures, the message that is made of them, and its sentence.

Money is integer nano-dollars.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final, Literal, NamedTuple, cast

import msgspec
from msgspec import UNSET, UnsetType

from schemas.counting import how_many
from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.escaping import utf8_text, visible
from schemas.lengths import duration
from schemas.messages.receipt import (
    JobEnded,
    JobEndedData,
    ReceiptCheaper,
    ReceiptExpected,
    ReceiptKind,
    ReceiptRun,
)
from streams.engine.alerts.alert import receipt_id
from streams.engine.ledger_rules.subject import NEXT_ATTEMPT_MS
from streams.engine.rules.formatting import NAMES_AT_MOST, one_line, short
from streams.engine.rules.formatting import usd as shown_usd
from streams.estimate.elsewhere import SPOT
from streams.estimate.ran import nano_of
from streams.notify.json_forms import rfc3339, usd
from streams.notify.links import NO_LINKS, Links
from streams.notify.notice import JOB_ENDED


class EndedJob(NamedTuple):
    """A job that is over; instants in ms since 1970."""

    job_id: str
    owner: str
    team: str
    project: str
    experiment: str
    state: str
    attempts: int
    started_ms: int | None
    ended_ms: int
    wall_clock_ms: int
    gpus: str
    gpu_type: str
    purchase: str

    @property
    def over_ms(self) -> int:
        """Return when it is over: at its end, or when no next attempt came."""
        return self.ended_ms + (0 if self.state in ("completed", "cancelled") else NEXT_ATTEMPT_MS)


class UsualCost(NamedTuple):
    """What similar completed jobs cost."""

    kind: Mapping[str, str]
    jobs: int
    median_nano: int


class Cheaper(NamedTuple):
    """What it would have cost with another purchase."""

    purchase: str
    cost_nano: int


class RunCost(NamedTuple):
    """The training run that it is a part of, up to its end."""

    name: str
    jobs: int
    cost_nano: int
    lost_nano: int


class Figures(NamedTuple):
    """What a job cost, and what that is held against; None: not known."""

    cost_nano: int = 0
    lost_nano: int = 0
    sampled_gpu_ms: int = 0
    productive_gpu_ms: int = 0
    is_unpriced: bool = False
    preemptions: int = 0
    failures: int = 0
    expected_nano_per_hour: int | None = None
    usual: UsualCost | None = None
    cheaper: Cheaper | None = None
    run: RunCost | None = None


class Receipt(NamedTuple):
    """What is stored and sent."""

    receipt_id: str
    type: str
    subject_kind: str
    subject_name: str
    owner: str
    begins_ms: int | None
    ended_ms: int
    cost_nano: int
    lost_nano: int
    summary: str
    message: bytes
    time_ms: int  # the first whole minute at which it is due


def receipt_of(job: EndedJob, figures: Figures, links: Links = NO_LINKS) -> Receipt:
    """Build the receipt; the same job, figures and links always give the same bytes."""
    data = _data(job, figures, links)
    message = JobEnded(type="job.ended", timestamp=rfc3339(job.ended_ms), data=data)
    return Receipt(
        data.receipt_id,
        JOB_ENDED,
        "job",
        job.job_id,
        job.owner,
        job.started_ms,
        job.ended_ms,
        figures.cost_nano,
        figures.lost_nano,
        data.summary,
        msgspec.json.encode(message),
        -(-job.over_ms // MINUTE_MS) * MINUTE_MS,
    )


def _data(job: EndedJob, of: Figures, links: Links) -> JobEndedData:
    expected = usual = cheaper = None
    per_hour = _per_hour(of.cost_nano, job.wall_clock_ms)
    if of.expected_nano_per_hour and per_hour is not None:
        expected = ReceiptExpected(
            usd_per_hour=usd(of.expected_nano_per_hour), ratio=per_hour / of.expected_nano_per_hour
        )
    if of.usual is not None:
        median_nano = of.usual.median_nano
        usual = ReceiptKind(
            jobs=of.usual.jobs,
            same={name: utf8_text(value) for name, value in of.usual.kind.items()},
            median_usd=usd(median_nano),
            ratio=of.cost_nano / median_nano if median_nano else None,
        )
    if of.cheaper is not None:
        cheaper = ReceiptCheaper(
            purchase=of.cheaper.purchase,
            cost_usd=usd(of.cheaper.cost_nano),
            saved_usd=usd(of.cost_nano - of.cheaper.cost_nano),
        )
    run: ReceiptRun | UnsetType = UNSET
    if of.run is not None:
        run = ReceiptRun(
            name=utf8_text(of.run.name),
            jobs=of.run.jobs,
            cost_usd=usd(of.run.cost_nano),
            lost_usd=usd(of.run.lost_nano),
        )
    identity = receipt_id(JOB_ENDED, "job", job.job_id, "", job.ended_ms)
    return JobEndedData(
        receipt_id=identity,
        job_id=utf8_text(job.job_id),
        owner=utf8_text(job.owner),
        team=utf8_text(job.team),
        project=utf8_text(job.project),
        experiment=utf8_text(job.experiment),
        state=cast('Literal["completed", "cancelled", "preempted", "failed"]', job.state),
        started_ms=job.started_ms,
        ended_ms=job.ended_ms,
        attempts=job.attempts,
        preemptions=of.preemptions,
        failures=of.failures,
        wall_clock_ms=job.wall_clock_ms,
        cost_usd=usd(of.cost_nano),
        usd_per_hour=None if per_hour is None else usd(per_hour),
        lost_usd=usd(of.lost_nano),
        lost_ratio=of.lost_nano / of.cost_nano if of.cost_nano else None,
        productive_ratio=of.productive_gpu_ms / of.sampled_gpu_ms if of.sampled_gpu_ms else None,
        is_unpriced=of.is_unpriced,
        expected=expected,
        kind=usual,
        cheaper=cheaper,
        run=run,
        summary=visible(sentence(job, of)),
        command=show_command(identity),
        links=links.of_receipt(JOB_ENDED, "job", job.job_id, job.ended_ms) or UNSET,
    )


def sentence(job: EndedJob, of: Figures) -> str:
    """The receipt in one line, for a phone."""
    said = f"{one_line(job.job_id)} {job.state}: {shown_usd(of.cost_nano)}"
    per_hour = _per_hour(of.cost_nano, job.wall_clock_ms)
    if per_hour is not None:
        said += f" in {_hours(job.wall_clock_ms)} ({shown_usd(per_hour)}/h)"
    more = "; ".join(_more(of, per_hour))
    return f"{said}. {more}." if more else f"{said}."


def _more(of: Figures, per_hour: int | None) -> Iterator[str]:
    if of.is_unpriced:
        yield "some GPU-time has no price, so it cost more"
    if of.lost_nano and of.cost_nano:
        causes = [
            f"{count} {word}{'s' if count > 1 else ''}"
            for count, word in ((of.preemptions, "preemption"), (of.failures, "failure"))
            if count
        ]
        part = 100 * of.lost_nano / of.cost_nano
        share = f"{part:.0f} %" if part >= 0.5 else "less than 1 %"
        yield f"{share} lost" + (f" to {' and '.join(causes)}" if causes else "")
    if of.sampled_gpu_ms:
        yield f"GPUs {100 * of.productive_gpu_ms / of.sampled_gpu_ms:.0f} % productive"
    if of.expected_nano_per_hour and per_hour is not None:
        yield f"{_against(per_hour, of.expected_nano_per_hour)} its expected rate"
    if of.usual is not None and of.usual.median_nano:
        yield f"{_against(of.cost_nano, of.usual.median_nano)} the median of similar jobs"
    if of.cheaper is not None:
        saved = shown_usd(of.cost_nano - of.cheaper.cost_nano)
        yield f"{of.cheaper.purchase} would have saved {saved}"
    if of.run is not None:
        total, lost = shown_usd(of.run.cost_nano), shown_usd(of.run.lost_nano)
        yield f"run {short(of.run.name, NAMES_AT_MOST)}: {how_many(of.run.jobs, 'job')}, {total} in all, {lost} lost"


def without_others(data: JobEndedData) -> JobEndedData:
    """The receipt without what was found from jobs that may be of other teams: the median of a kind that names no team, and what spot loses."""
    left_out: list[str] = []
    kind, cheaper, cost_nano = data.kind, data.cheaper, nano_of(data.cost_usd)
    if kind is not None and not kind.same.get("team"):
        if median_nano := nano_of(kind.median_usd):
            left_out.append(f"{_against(cost_nano, median_nano)} the median of similar jobs")
        kind = None
    if cheaper is not None and cheaper.purchase == SPOT:
        left_out.append(f"{SPOT} would have saved {shown_usd(nano_of(cheaper.saved_usd))}")
        cheaper = None
    summary = data.summary
    for part in left_out:
        for said, rest in ((f"; {part}", ""), (f" {part};", ""), (f" {part}.", "")):
            if said in summary:
                before, _, after = summary.rpartition(said)
                summary = before + rest + after
                break
    return msgspec.structs.replace(data, kind=kind, cheaper=cheaper, summary=summary)


_FAR_RATIO: Final = 3.0


def _against(value: int, usual: int) -> str:
    ratio = value / usual
    if ratio >= _FAR_RATIO:
        return f"{ratio:.1f} times"
    percent = round(100 * (ratio - 1))
    return f"{abs(percent)} % {'over' if percent > 0 else 'under'}" if percent else "at"


def _per_hour(cost_nano: int, wall_clock_ms: int) -> int | None:
    """Nano-dollars per hour of run time, rounded half to even; None: it never ran."""
    return round(Fraction(cost_nano * HOUR_MS, wall_clock_ms)) if wall_clock_ms else None


def _hours(ms: int) -> str:
    return f"{ms / HOUR_MS:,.1f} h" if ms >= HOUR_MS else duration(ms)


def show_command(identity: str) -> str:
    """What shows a receipt again."""
    return shlex.join(["trainfare", "receipts", "show", identity])
