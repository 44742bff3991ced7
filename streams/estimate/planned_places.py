"""What a planned job would cost at each place that the price list knows, at the prices in force now.

Each line is what `trainfare estimate` expects of the same plan with the fields of the place; where no similar job ran, its retries are those of the plan as it is.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

from schemas.events import Component
from streams.engine.pricing.book import PriceBook
from streams.errors import TrainfareError
from streams.estimate.alternatives import PLACES_MAX, Fields, wanted_places
from streams.estimate.asking import Records, past_jobs
from streams.estimate.forecast import Case, Forecast, Plan, forecast
from streams.estimate.past import Past


class PlannedPlace(NamedTuple):
    """One place: what differs there, the case to expect, and how many similar jobs ran there."""

    fields: Fields
    case: Case
    past_jobs: int


class PlannedPlaces(NamedTuple):
    """A plan as it is and at each place, the cheapest first; `left_out`: places that were not priced, as there are too many."""

    planned: Case
    places: tuple[PlannedPlace, ...]
    left_out: int

    def same_cost_at(self, place: PlannedPlace) -> Fraction | None:
        """The factor of time at which the place costs as much as the plan: all parts of a plan grow with its time."""
        nano = place.case.cost_nano
        return Fraction(self.planned.cost_nano, nano) if nano else None


def planned_places(
    records: Records, plan: Plan, book: PriceBook, past: Past | None, found: Forecast, at_ms: int
) -> PlannedPlaces:
    """Price a plan at each place of the price list.

    Args:
        records: Runs statements.
        plan: Its fields are those of the plan as it is.
        book: The price list.
        past: The similar past jobs of the plan.
        found: What the plan is expected to cost as it is.
        at_ms: The instant whose prices count (ms since 1970).
    """
    planned = next(case for case in found.cases if case.name == found.expected)
    events = (
        event for event in book.events if event.component is Component.gpu and event.effective_ms <= at_ms
    )
    wanted = wanted_places([plan.fields], plan.team, plan.project, events)
    pasts: dict[tuple[str, str], Past | None] = {}
    places: list[PlannedPlace] = []
    for fields, skus in wanted[:PLACES_MAX]:
        there = replace(plan, fields={**plan.fields, **fields}, work_ms=plan.work_ms or planned.wall_clock_ms)
        names = there.names()
        kind = (names["gpu_type"], names["purchase"])
        if kind not in pasts:
            pasts[kind] = past_jobs(records, names)
        of_place = pasts[kind]
        try:
            cases = forecast(there, book, of_place or past, at_ms)
        except TrainfareError:
            continue  # some of its time has no price there
        # The median of the plan has its retries in it: they do not come on top a second time.
        name = cases.expected if plan.work_ms is not None else cases.cases[0].name
        case = next(each for each in cases.cases if each.name == name)
        if any(part.price is not None and part.price.sku in skus for part in case.parts):
            places.append(PlannedPlace(fields, case, 0 if of_place is None else of_place.jobs))
    places.sort(key=lambda each: (each.case.cost_nano, sorted(each.fields.items())))
    return PlannedPlaces(planned, tuple(places), max(0, len(wanted) - PLACES_MAX))
