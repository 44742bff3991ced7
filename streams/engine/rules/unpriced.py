"""`unpriced`: the ledger has GPU-time or traffic of a job without a price."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schemas.durations import MINUTE_MS, NEVER_MS
from schemas.reserved import is_canary_job
from streams.engine.rules.evidence import unpriced_evidence
from streams.engine.rules.job_view import FactSpan, JobAt, JobKnown, JobRule, Unpriced, Words
from streams.engine.rules.rule import JOB, TICKET, Margin, Threshold, from_threshold_on


def _spans(known: JobKnown) -> Iterator[FactSpan]:
    found = known.unpriced
    if is_canary_job(known.job.id):
        found = found._replace(
            traffic_ms=NEVER_MS
        )  # the meter's own test job sends an amount that nobody prices
    known.details.append(found)
    since_ms = min(found.gpu_ms, found.traffic_ms) if known.thresholds["traffic"] else found.gpu_ms
    if since_ms < NEVER_MS:
        yield FactSpan(since_ms + 1, NEVER_MS)


def _cause(at: JobAt) -> str:
    found = at.facts.detail(Unpriced) or Unpriced()
    gpu = found.gpu_ms < at.at_ms
    traffic = bool(at.settings["unpriced"]["traffic"]) and found.traffic_ms < at.at_ms
    return "GPU-time and traffic" if gpu and traffic else "traffic" if traffic else "GPU-time"


def _margins(at: JobAt) -> list[Margin]:
    found = at.facts.detail(Unpriced) or Unpriced()
    counts = bool(at.settings["unpriced"]["traffic"])
    return [
        from_threshold_on("minutes since GPU-time has no price", _minutes(at.at_ms, found.gpu_ms), 0),
        from_threshold_on(
            "minutes since traffic has no price",
            _minutes(at.at_ms, found.traffic_ms) if counts else None,
            0,
            way=1,
        ),
    ]


def _minutes(at_ms: int, since_ms: int) -> float:
    return max(at_ms - since_ms, 0) / MINUTE_MS


RULE: Final = JobRule(
    name="unpriced",
    title="No price",
    severity=TICKET,
    about=JOB,
    holds="GPU-time, or traffic, has no price, however old it is; off by default",
    runbook="runbook.md#unpriced-gpu-time",
    thresholds={
        "traffic": Threshold(1, 0, 1, "1: traffic without a price counts, too; 0: GPU-time only", True)
    },
    enabled=False,  # `missing_price` sends one alert for all jobs that lack the same price
    spans=_spans,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: unpriced_evidence(of.job_id),
    words=Words(
        "has {cause} without a price, so that its cost reads too low",
        "publish a price",
        "has a price for everything again",
        "",
        "GPU-time",
    ),
)
