"""What each flow of a job's traffic cost, and what it is called in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from schemas.durations import MINUTE_MS
from schemas.events import FLOW_FIELDS
from schemas.units import Unit
from streams.engine.kernels.bill import cost_of
from streams.engine.pricing.book import PriceBook
from streams.engine.rules.formatting import many, rounded_usd, short, usd
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import payer_of
from streams.engine.timeline.lines import Flow, Line

#: What object stores call the operations of requests.
_VERBS: Final = {"read": "GET", "write": "PUT", "list": "LIST", "delete": "DELETE"}


def flow_costs(job: JobState, book: PriceBook, from_ms: int, at_ms: int) -> Counter[str]:
    """Return what each flow of traffic cost in the minutes of [from_ms, at_ms], in nano-dollars, by its words."""
    costs: Counter[str] = Counter()
    for line, quantity in _quantities(job, book, from_ms // MINUTE_MS, at_ms // MINUTE_MS + 1):
        costs[flow_words(line.price.component, line.flow)] += _cost_of(line, quantity)
    return costs


def request_words(job: JobState, book: PriceBook, from_ms: int, at_ms: int) -> str:
    """Return the requests that cost most in the minutes of [from_ms, at_ms], if they cost more than all other traffic; '': they do not.

    How many there were, and what they cost, is said of the last five minutes that are over: they may be new.
    """
    costs: Counter[tuple[bool, str]] = Counter()
    for line, quantity in _quantities(job, book, from_ms // MINUTE_MS, at_ms // MINUTE_MS + 1):
        is_request = line.price.unit == Unit.requests
        costs[is_request, _op(line) if is_request else ""] += _cost_of(line, quantity)
    ops = {op: nano for (is_request, op), nano in costs.items() if is_request}
    if 2 * sum(ops.values()) <= sum(costs.values()):
        return ""
    op = min(ops, key=lambda each: (-ops[each], each))
    minute = at_ms // MINUTE_MS
    for first, length in ((minute - 5, "5 min"), (minute - 60, "1 h")):
        lines = [
            (line, quantity)
            for line, quantity in _quantities(job, book, first, minute)
            if line.price.unit == Unit.requests and _op(line) == op
        ]
        requests, nano = sum(quantity for _, quantity in lines), sum(_cost_of(*each) for each in lines)
        if nano:
            per_hour = rounded_usd(nano * 60 // (minute - first))
            named = f"{many(requests)} {op} requests in {length}, {usd(nano)}"
            return f"{named} ({per_hour}/h)"
    return f"{op} requests"


def _quantities(job: JobState, book: PriceBook, first: int, end: int) -> Iterator[tuple[Line, int]]:
    for attempt in job.with_usage.values():
        if len(attempt.traffic):
            for rows in attempt.traffic.rows([(first, end)], book, payer_of(job, book), ()).values():
                for line, (quantity, _) in rows.items():
                    yield line, quantity


def _cost_of(line: Line, quantity: int) -> int:
    return cost_of(quantity, line.price.usd_nano, line.price.divisor)


def _op(line: Line) -> str:
    op = dict(zip(FLOW_FIELDS, line.flow, strict=True))["op"]
    return _VERBS.get(op, op)


def flow_words(component: str, flow: Flow) -> str:
    """Return a flow in words: its path and regions, or its component, operation and storage class."""
    said = {name: short(value) for name, value in zip(FLOW_FIELDS, flow, strict=True)}
    words = [said["path"] or component, said["op"], said["storage_class"]]
    if said["region"] or said["dst_region"]:
        ends = said["region"] or "?", said["dst_region"]
        words.append(" -> ".join(end for end in ends if end))
    return " ".join(word for word in words if word)
