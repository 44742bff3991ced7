"""What a planned job is expected to cost: by its planned time, and by the times that similar past jobs took."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from schemas.units import COMPONENTS
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.kinds import Kind, PriceRef
from streams.estimate.amounts import cost_nano, half_even
from streams.estimate.past import FOLLOWING, Past
from streams.estimate.prices import context_of, time_prices


@dataclass(frozen=True)
class Plan:
    """A job that has not run: GPUs in thousandths, `work_ms` the time it would take without retries."""

    gpu_milli: int
    work_ms: int | None = None
    fields: Mapping[str, str] = field(default_factory=dict)  # its PRICE_FIELDS
    team: str = ""
    project: str = ""
    experiment: str = ""
    labels: tuple[str, ...] = ()  # as prices name them: key=value

    def names(self) -> dict[str, str]:
        """What it may have in common with past jobs."""
        gpus = f"{self.gpu_milli // 1000}.{self.gpu_milli % 1000:03}"
        found = {"team": self.team, "project": self.project, "experiment": self.experiment, "gpus": gpus}
        return found | {name: self.fields.get(name, "") for name in ("gpu_type", "purchase")}


class Part(NamedTuple):
    """A component's cost; `price` is None where past jobs say it."""

    component: str
    price: PriceRef | None
    cost_nano: int


class Case(NamedTuple):
    """One duration, and what it would cost."""

    name: str
    wall_clock_ms: int
    gpu_milli_ms: int
    parts: tuple[Part, ...]

    @property
    def cost_nano(self) -> int:
        """The sum of the parts."""
        return sum(part.cost_nano for part in self.parts)


class Forecast(NamedTuple):
    """The cases; `expected` is the name of the one to expect."""

    cases: tuple[Case, ...]
    expected: str


def forecast(plan: Plan, book: PriceBook, past: Past | None, at_ms: int) -> Forecast:
    """What the plan costs by the prices in force at `at_ms`; the plan has `work_ms`, or there are past jobs.

    Raises:
        TrainfareError: GPU-time is unpriced.
    """
    durations_ms: dict[str, int] = {}
    if plan.work_ms is not None:
        durations_ms["planned"] = plan.work_ms
        if past is not None and past.surviving_gpu_milli_ms > 0:
            durations_ms["with_retries"] = half_even(
                plan.work_ms * past.gpu_milli_ms, past.surviving_gpu_milli_ms
            )
    expected = next(reversed(durations_ms), "median")
    if past is not None:
        durations_ms |= {"median": past.median_ms, "p90": past.p90_ms}
    cases = tuple(_case(name, ms, plan, book, past, at_ms) for name, ms in durations_ms.items())
    return Forecast(cases, expected)


def _case(name: str, wall_ms: int, plan: Plan, book: PriceBook, past: Past | None, at_ms: int) -> Case:
    gpu_milli_ms = plan.gpu_milli * wall_ms
    parts = [*_priced(plan, book, wall_ms, at_ms)]
    priced = {part.component for part in parts}
    if past is not None and past.gpu_milli_ms > 0:
        for component in FOLLOWING:
            nano = half_even(past.following_nano[component] * gpu_milli_ms, past.gpu_milli_ms)
            if component not in priced and nano:
                parts.append(Part(component, None, nano))
    parts.sort(key=lambda part: COMPONENTS.index(part.component))
    return Case(name, wall_ms, gpu_milli_ms, tuple(parts))


def _priced(plan: Plan, book: PriceBook, wall_ms: int, at_ms: int) -> Iterator[Part]:
    context = context_of(plan.fields, plan.team, plan.project)
    for kind, quantity in ((Kind.GPU_TIME, plan.gpu_milli * wall_ms), (Kind.JOB_TIME, wall_ms)):
        for price in time_prices(book, context, kind, at_ms, plan.labels):
            yield Part(price.component, price, cost_nano(quantity, price))
