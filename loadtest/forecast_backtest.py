"""How good the forecast of a month is on day 10: real clusters and months that are made, each with the month that followed.

Run it as `python -m loadtest.forecast_backtest --helios FILE --earth DIR --svg docs/images/forecast.svg`; both are optional.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from streams.costs.forecast import Hours, bounds_of, misses, rest_of, within

Series = Mapping[str, Hours]
USD_PER_GPU_HOUR: Final = 3.0
DAY_H: Final = 24
MONTH_D: Final = 30


class Past(NamedTuple):
    """Hours in dollars by team, all from one hour since 1970 on."""

    hours: Series
    first_hour: int


class TeamMonth(NamedTuple):
    """What was forecast on a day, and what came."""

    team: str
    day: int
    forecast: float
    low: float
    high: float
    actual: float

    @property
    def is_inside(self) -> bool:
        """Whether the month lies in the range."""
        return self.low - 1e-6 <= self.actual <= self.high + 1e-6


class Figures(NamedTuple):
    """Of many team-months: coverage, and medians of the error and of the width of the range, as shares of the month."""

    months: int
    coverage: float
    error: float
    width: float


def forecast(past: Past, day: int, end: int) -> list[TeamMonth]:
    """Forecast on a day what each team's month will have cost that ends on another; teams without any cost yet are left out."""
    at_h, days = day * DAY_H, end - day
    first_hour = past.first_hour + at_h
    scores = [each for hours in past.hours.values() for each in misses(hours[:at_h], first_hour, days)]
    bounds = bounds_of(scores, at_h)
    whole = np.sum([hours[:at_h] for hours in past.hours.values()], axis=0)
    own = bounds_of(misses(whole, first_hour, days), at_h)
    rest_of_all = rest_of(whole, first_hour, days * DAY_H, own)
    found = []
    for team, hours in past.hours.items():
        before = hours[:at_h]
        begin_h = max(end - MONTH_D, 0) * DAY_H if end > MONTH_D + 1 else 0
        actual = float(hours[begin_h : end * DAY_H].sum())
        if before.sum() <= 0 or actual <= 0:
            continue
        spent = float(hours[begin_h:at_h].sum())
        rest = within(rest_of(before, first_hour, days * DAY_H, bounds), rest_of_all)
        found.append(TeamMonth(team, day, spent + rest.expected, spent + rest.low, spent + rest.high, actual))
    return found


def figures(months: Sequence[TeamMonth]) -> Figures:
    """Coverage, error and width."""
    return Figures(
        len(months),
        float(np.mean([each.is_inside for each in months])),
        float(np.median([abs(each.forecast - each.actual) / each.actual for each in months])),
        float(np.median([(each.high - each.low) / each.actual for each in months])),
    )


def helios(path: Path, teams: int) -> Past:
    """Twenty days of Helios, users grouped to so many teams; a job starts as it is submitted."""
    count = 20 * DAY_H
    found = {str(team): np.zeros(count) for team in range(teams)}
    at_s = 0
    with path.open(encoding="utf-8", newline="") as text:
        for row in csv.DictReader(text):
            at_s += int(row["interval"])
            end_s, gpus = at_s + int(row["run_time"]), int(row["gpu_num"])
            for hour in range(at_s // 3600, min(-(-end_s // 3600), count)):
                share = (min(end_s, (hour + 1) * 3600) - max(at_s, hour * 3600)) / 3600
                found[str(int(row["user"]) % teams)][hour] += gpus * share * USD_PER_GPU_HOUR
    return Past(found, _hour(2020, 4, 1))


def earth(folder: Path) -> Past:
    """May 2020 of the 16 virtual clusters of Helios' Earth: GPUs in use by minute (`cluster_sequence_vc.csv` of each)."""
    found = {}
    for path in sorted(folder.glob("**/*.csv")):
        with path.open(encoding="utf-8", newline="") as text:
            minutes = np.array([float(row["running_gpu_num"]) for row in csv.DictReader(text)])
        whole = minutes[: len(minutes) // 60 * 60]
        name = path.parent.name if path.stem.startswith("cluster_sequence") else path.stem
        found[name] = whole.reshape(-1, 60).mean(axis=1) * USD_PER_GPU_HOUR
    return Past(found, _hour(2020, 5, 1))


def made(seed: int, *, philly: bool, teams: int = 24, days: int = 90) -> Past:
    """Teams whose jobs come by hour of the day and weekday at a rate that drifts; `philly`: with the sizes and run times of that trace.

    Its published median run time is 874 s and its mean 5 h, so a few jobs are nearly all of the cost.
    """
    rng = np.random.default_rng([seed, philly])
    first_hour, count = _hour(2026, 8, 1), days * DAY_H
    sizes, odds = ([1, 2, 4, 8, 16, 32], [0.80, 0.05, 0.06, 0.05, 0.03, 0.01])
    median_h, sigma, pace = 874 / 3600, 2.2, 0.6
    if not philly:
        sizes, odds, median_h, sigma, pace = [1, 2, 4, 8, 16], [0.4, 0.2, 0.15, 0.2, 0.05], 2.0, 1.3, 0.4
    hours = first_hour + np.arange(count)
    is_day, is_weekday = (hours % DAY_H >= 8) & (hours % DAY_H < 20), (hours // DAY_H + 3) % 7 < 5
    found = {}
    for team in range(teams):
        drift = np.repeat(np.exp(np.cumsum(rng.normal(0, 0.04, days))), DAY_H)
        night, weekend = rng.uniform(0.1, 1, 2)
        rate = (
            rng.lognormal(0, 1) * pace * np.where(is_day, 1, night) * np.where(is_weekday, 1, weekend) * drift
        )
        usd = np.zeros(count)
        for start in np.repeat(np.arange(count), rng.poisson(rate)):
            gpus, lasts = rng.choice(sizes, p=odds), min(rng.lognormal(np.log(median_h), sigma), 600.0)
            whole = int(lasts)
            usd[start : start + whole] += gpus * USD_PER_GPU_HOUR
            if start + whole < count:
                usd[start + whole] += gpus * USD_PER_GPU_HOUR * (lasts - whole)
        found[f"t{team}"] = usd
    return Past(found, first_hour)


def _hour(year: int, month: int, day: int) -> int:
    return int(datetime(year, month, day, tzinfo=UTC).timestamp()) // 3600


def cases(
    helios_file: Path | None, earth_folder: Path | None, seeds: Iterable[int]
) -> dict[str, list[TeamMonth]]:
    """Team-months on day 10 by where they are from."""
    found: dict[str, list[TeamMonth]] = {}
    if earth_folder is not None:
        found["Helios Earth, 16 virtual clusters, first month"] = forecast(earth(earth_folder), 10, 31)
    if helios_file is not None:
        found["Helios, 12 and 24 teams, day 10 of 20"] = [
            each for teams in (12, 24) for each in forecast(helios(helios_file, teams), 10, 20)
        ]
    for name, philly in (("made", False), ("Philly-like", True)):
        first, third = [], []
        for seed in seeds:
            past = made(seed, philly=philly)
            third += forecast(past, 70, 90)
            first += forecast(
                Past({team: hours[: 31 * DAY_H] for team, hours in past.hours.items()}, past.first_hour),
                10,
                31,
            )
        found[f"{name}, first month"], found[f"{name}, third month"] = first, third
    return found


def table(found: Mapping[str, Sequence[TeamMonth]]) -> str:
    """The figures as a table of Markdown."""
    lines = [
        "| team-months on day 10 | counted | in the range of 80 % | error, median | width of the range, median |",
        "|---|---|---|---|---|",
    ]
    for name, months in found.items():
        of = figures(months)
        lines.append(f"| {name} | {of.months} | {of.coverage:.1%} | {of.error:.1%} | {of.width:.0%} |")
    return "\n".join(lines)


def svg(found: Mapping[str, Sequence[TeamMonth]], most: int = 60) -> str:
    """Forecasts with their ranges, each as a share of what its month cost in the end."""
    shown = {name: list(months)[:most] for name, months in found.items()}
    width, height, left, top = 900, 90, 300, 30
    parts = []
    for row, (name, months) in enumerate(shown.items()):
        base = top + row * height
        parts.append(f'<text x="{left - 12}" y="{base + 40}" text-anchor="end">{name}</text>')
        parts.append(f'<line x1="{left}" y1="{base + 45}" x2="{width - 10}" y2="{base + 45}" class="true"/>')
        step = (width - left - 20) / max(len(months), 1)
        for place, each in enumerate(sorted(months, key=lambda one: one.high / one.actual)):
            x = left + 8 + place * step
            low, mid, high = (
                base + 75 - 30 * min(value / each.actual, 2.4)
                for value in (each.low, each.forecast, each.high)
            )
            mark = "in" if each.is_inside else "out"
            parts.append(f'<line x1="{x:.1f}" y1="{low:.1f}" x2="{x:.1f}" y2="{high:.1f}" class="{mark}"/>')
            parts.append(f'<circle cx="{x:.1f}" cy="{mid:.1f}" r="1.8" class="{mark}"/>')
    whole = top + len(shown) * height + 20
    style = (
        "text{font:12px sans-serif;fill:#333}.bg{fill:#fff}.in{stroke:#2b6cb0;fill:#2b6cb0;stroke-width:2}"
        ".out{stroke:#c05621;fill:#c05621;stroke-width:2}.true{stroke:#888;stroke-dasharray:4 3}"
        "@media (prefers-color-scheme: dark){text{fill:#ddd}.bg{fill:#1b1b1b}.in{stroke:#63b3ed;fill:#63b3ed}"
        ".out{stroke:#f6ad55;fill:#f6ad55}}"
    )
    words = "A line for each team-month from the low to the high end of its range, a dot at the forecast; outside in orange."
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {whole}" role="img">'
        f"<title>Ranges of forecasts on day 10</title><desc>{words}</desc><style>{style}</style>"
        f'<rect class="bg" width="{width}" height="{whole}"/>'
    )
    said = f'<text x="{left}" y="18">range and forecast on day 10; dashed: what the month cost; orange: outside the range</text>'
    return "\n".join([head, said, *parts, "</svg>", ""])


def main() -> None:
    """Print the table, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--helios", type=Path)
    parser.add_argument("--earth", type=Path)
    parser.add_argument("--svg", type=Path)
    given = parser.parse_args()
    found = cases(given.helios, given.earth, range(8))
    sys.stdout.write(table(found) + "\n")
    if given.svg is not None:
        given.svg.write_text(svg(found), encoding="utf-8")


if __name__ == "__main__":
    main()
