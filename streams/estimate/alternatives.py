"""What a job that ran would have cost at each place that the price list knows: other GPU types, purchases, regions, instances.

Each line is what `trainfare estimate --of JOB` says of the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from schemas.events import PRICE_FIELDS, Component, PriceEvent
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.nearest import is_met
from streams.errors import TrainfareError
from streams.estimate.asking import ON_DEMAND, RanSpan, Records, ran_span, stored_book, with_past
from streams.estimate.elsewhere import SPOT, Comparison, Elsewhere, compared
from streams.estimate.past import Past
from streams.estimate.ran import RanJob, coarser

#: Places that are compared; the nearest of them, by how much differs.
PLACES_MAX: Final = 200
#: Instants at which prices change, of all places together: each cuts what the job paid.
_INSTANTS_MAX: Final = 2_000
#: Rows of what it paid times places: a spot job of hundreds of attempts is compared with fewer places.
_ROWS_MAX: Final = 20_000
_PLACES_LEAST: Final = 10

Fields = dict[str, str]


class Alternative(NamedTuple):
    """One place: what differs there, and both sides."""

    there: Elsewhere
    sides: Comparison


class Alternatives(NamedTuple):
    """All of a job, the cheapest first.

    `left_out`: places that were not compared, as there are too many; `later_prices`: SKUs whose first price began to
    hold only after the job had paid.
    """

    job_id: str
    job: RanJob
    book: PriceBook
    places: tuple[Alternative, ...]
    left_out: int
    later_prices: int


def alternatives(records: Records, job_id: str) -> Alternatives:
    """Price a job at each place of the price list.

    Raises:
        TrainfareError: The store does not know it, it has paid for nothing, or some of its minutes were dropped.
    """
    span = ran_span(records, job_id)
    book = stored_book(records, "")
    of_gpus = [event for event in book.events if event.component is Component.gpu]
    in_time = [event for event in of_gpus if event.effective_ms < span.until_ms]
    wanted = _wanted(span, in_time)
    cuts: list[list[int]] = []
    instants: set[int] = set()
    for fields, _ in wanted[:PLACES_MAX]:
        cuts.append(span.instants(Elsewhere(fields), book))
        instants |= {*cuts[-1]}
        if len(instants) > _INSTANTS_MAX:
            cuts.pop()
            break
    job = span.ran(records, sorted({at_ms for cut in cuts for at_ms in cut}))
    compared_max = max(_PLACES_LEAST, _ROWS_MAX // max(1, len(job.paid)))
    pasts: dict[str, Past | None] = {}
    found = []
    for (fields, skus), cut in list(zip(wanted, cuts, strict=False))[:compared_max]:
        there = _with_past(records, span.facts, Elsewhere(fields), pasts)
        sides = _compared(coarser(job, span.starts_ms(cut)), there, book)
        if sides is not None and any(each.sku in skus for each in sides.elsewhere.prices):
            found.append(Alternative(there, sides))
    found.sort(key=lambda each: (each.sides.elsewhere.cost_nano, sorted(each.there.fields.items())))
    left_out = len(wanted) - min(len(cuts), compared_max)
    later = {event.sku for event in of_gpus} - {event.sku for event in in_time}
    return Alternatives(job_id, job, book, tuple(found), left_out, len(later))


def _compared(job: RanJob, there: Elsewhere, book: PriceBook) -> Comparison | None:
    """Both sides; None: some of its GPU-time has no price there."""
    try:
        return compared(job, there, book)
    except TrainfareError:
        return None


def _with_past(
    records: Records, facts: Mapping[str, Any], there: Elsewhere, pasts: dict[str, Past | None]
) -> Elsewhere:
    """The place with what similar jobs lost there, if it is on spot and the job was not; each GPU type is asked for once."""
    if there.fields.get("purchase") != SPOT or facts["fields"].get("purchase", "") == SPOT:
        return there
    gpu_type = there.fields.get("gpu_type", "")
    if gpu_type not in pasts:
        pasts[gpu_type] = with_past(records, facts, there).past
    return replace(there, past=pasts[gpu_type])


def _wanted(span: RanSpan, events: Iterable[PriceEvent]) -> list[tuple[Fields, set[str]]]:
    # Hundreds of attempts mostly had the same.
    held = {tuple(attempt.fields.items()): attempt.fields for attempt in span.bare.attempts}.values()
    return wanted_places(held, span.bare.team, span.bare.project, events)


def wanted_places(
    held: Iterable[Mapping[str, str]], team: str, project: str, events: Iterable[PriceEvent]
) -> list[tuple[Fields, set[str]]]:
    """What differs at each place from price fields that are held, and the SKUs that it stands for; those at which least differs come first."""
    found: dict[tuple[tuple[str, str], ...], set[str]] = {}
    owners = {"team": team, "project": project}
    whole = [dict.fromkeys(PRICE_FIELDS) | dict(fields) for fields in held]
    for event in events:
        fields = _different(owners, whole, event)
        if fields:
            found.setdefault(tuple(sorted(fields.items())), set()).add(event.sku)
    nearest_first = sorted(found, key=lambda fields: (len(fields), "gpu_type" in dict(fields), fields))
    return [(dict(fields), found[fields]) for fields in nearest_first]


def _different(
    owners: Mapping[str, str], held: Sequence[Mapping[str, str | None]], event: PriceEvent
) -> Fields:
    """What would have to change for a price to be meant for a job of these owners; nothing: it has all of it, or can never have it."""
    if any(name in owners and owners[name] != value for name, value in event.match.items()):
        return {}
    fields = {
        name: value
        for name, value in event.match.items()
        if name in PRICE_FIELDS and not all(is_met(name, value, each) for each in held)
    }
    # A price that names no purchase is no price of spot.
    if "purchase" not in event.match and any(each["purchase"] == SPOT for each in held):
        fields["purchase"] = ON_DEMAND
    return fields
