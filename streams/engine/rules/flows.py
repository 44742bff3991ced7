"""What each flow of a job's traffic cost, and what it is called in a sentence."""

from __future__ import annotations

from collections import Counter

from schemas.durations import MINUTE_MS
from schemas.events import FLOW_FIELDS
from streams.engine.kernels.bill import cost_of
from streams.engine.pricing.book import PriceBook
from streams.engine.rules.formatting import short
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import payer_of
from streams.engine.timeline.lines import Flow


def flow_costs(job: JobState, book: PriceBook, from_ms: int, at_ms: int) -> Counter[str]:
    """Return what each flow of traffic cost in the minutes of [from_ms, at_ms], in nano-dollars, by its words."""
    minutes = [(from_ms // MINUTE_MS, at_ms // MINUTE_MS + 1)]
    costs: Counter[str] = Counter()
    for attempt in job.with_usage.values():
        if len(attempt.traffic):
            for rows in attempt.traffic.rows(minutes, book, *payer_of(job), ()).values():
                for line, (quantity, _) in rows.items():
                    nano = cost_of(quantity, line.price.usd_nano, line.price.divisor)
                    costs[flow_words(line.price.component, line.flow)] += nano
    return costs


def flow_words(component: str, flow: Flow) -> str:
    """Return a flow in words: its path and regions, or its component, operation and storage class."""
    said = {name: short(value) for name, value in zip(FLOW_FIELDS, flow, strict=True)}
    words = [said["path"] or component, said["op"], said["storage_class"]]
    if said["region"] or said["dst_region"]:
        ends = said["region"] or "?", said["dst_region"]
        words.append(" -> ".join(end for end in ends if end))
    return " ".join(word for word in words if word)
