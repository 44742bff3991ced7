"""What a panel is, and the words of SQL that panels share: bounds of the range, buckets of time, short and long ranges.

A statement has the parameters `from_s`, `to_s` (seconds since 1970), `step_s` and, of a panel about one job, `job`. Short ranges read
minutes and burn rates, longer ones hours, so that what a statement needs does not grow with the range: a condition on the parameters alone is false
in one of the two parts, which then reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from schemas.durations import DAY_MS, HOUR_MS
from schemas.units import COMPONENTS

Form = Literal["lines", "stacked", "bars", "table", "number"]
Unit = Literal[
    "usd",
    "usd_per_hour",
    "count",
    "gpus",
    "gpu_hours",
    "hours",
    "seconds",
    "bytes",
    "ratio",
    "text",
    "time",
    "job",
]

FROM: Final = "{from_s:Int64}"
TO: Final = "{to_s:Int64}"
STEP: Final = "{step_s:Int64}"
JOB: Final = "{job:String}"
FROM_TIME: Final = f"toDateTime({FROM}, 'UTC')"
TO_TIME: Final = f"toDateTime({TO}, 'UTC')"

#: Up to so long a range of the whole fleet is read in minutes and burn rates.
FLEET_SHORT_S: Final = 6 * HOUR_MS // 1000
#: And of one job.
JOB_SHORT_S: Final = 2 * DAY_MS // 1000
#: So many teams have a series of their own, and so many jobs: with the others so many can be distinguished.
TEAMS: Final = 7
JOBS_DRAWN: Final = 8
#: Steps between points, of which the first is taken that leaves no more than POINTS_MAX.
STEPS_S: Final = (10, 30, 60, 300, 900, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800, 2_592_000)
POINTS_MAX: Final = 122

_COSTS: Final = tuple(f"{component}_cost_usd" for component in COMPONENTS)
#: What an hour of an attempt cost, by component.
COST_COLUMNS: Final = ", ".join(_COSTS)
#: The sum of what hours cost, all components together. Columns are added up before they are added: that takes half of the time,
#: and is as exact, since ClickHouse has 128 bits for the sum of a column.
COST_SUM: Final = f"({' + '.join(f'sum({cost})' for cost in _COSTS)})"
#: What one row cost: summed, it is one sum for each group in place of one for each component, where there are as many groups as jobs and steps.
ROW_COST: Final = f"({' + '.join(_COSTS)})"
IN_HOURS: Final = f"hour >= toStartOfHour({FROM_TIME}) AND hour < {TO_TIME}"
IN_MINUTES: Final = f"minute >= toStartOfMinute({FROM_TIME}) AND minute < {TO_TIME}"


@dataclass(frozen=True)
class Panel:
    """One question, and how its answer is drawn.

    Attributes:
        name: In addresses.
        title: Above it.
        answers: What it says, as a sentence.
        sql: The statement; a chart's first column is `time`, and a column `series` divides its rows into series.
        form: How it is drawn.
        unit: Of its figures.
        units: Of columns that have another one.
        span: Its width, of 24.
        height: Its height in Grafana's units.
        thresholds: From which values on it is worth a look (orange, red).
        most: What its axis ends with.
        is_monthly: Its steps are months, whatever the range.
    """

    name: str
    title: str
    answers: str
    sql: str
    form: Form
    unit: Unit = "count"
    units: Mapping[str, Unit] = field(default_factory=dict)
    span: int = 12
    height: int = 8
    thresholds: tuple[float, ...] = ()
    most: float | None = None
    is_monthly: bool = False

    @property
    def needs_job(self) -> bool:
        """Whether it is about one job."""
        return JOB in self.sql

    @property
    def parameters(self) -> frozenset[str]:
        """Those that its statement has."""
        known = {"from_s": FROM, "to_s": TO, "step_s": STEP, "job": JOB}
        return frozenset(name for name, text in known.items() if text in self.sql)


@dataclass(frozen=True)
class Dashboard:
    """Panels that are looked at together, in order."""

    name: str
    title: str
    answers: str
    range_s: int
    panels: tuple[Panel, ...]


def step_of(from_s: int, to_s: int) -> int:
    """The seconds between two points of a range."""
    return next((step_s for step_s in STEPS_S if to_s - from_s <= step_s * POINTS_MAX), STEPS_S[-1])


def is_short(limit_s: int = FLEET_SHORT_S) -> str:
    """The condition that the range is short."""
    return f"{TO} - {FROM} <= {limit_s}"


def is_long(limit_s: int = FLEET_SHORT_S) -> str:
    """The condition that it is not."""
    return f"{TO} - {FROM} > {limit_s}"


def steps_of(least_s: int) -> str:
    """The step in seconds, a whole number of `least_s`."""
    return f"(intDiv({STEP} + {least_s - 1}, {least_s}) * {least_s})"


def bucket(column: str, least_s: int) -> str:
    """The instant at which the step begins that an instant is in."""
    step = steps_of(least_s)
    return f"toDateTime(intDiv(toUnixTimestamp({column}), {step}) * {step}, 'UTC')"


def covered_hours(least_s: int) -> str:
    """How many hours of the step that begins at `time` are in the range: the first and the last step may be cut."""
    first = f"greatest(toUnixTimestamp(time), intDiv({FROM}, {least_s}) * {least_s})"
    last = f"least(toUnixTimestamp(time) + {steps_of(least_s)}, {TO})"
    return f"(greatest(1, {last} - {first}) / 3600)"
