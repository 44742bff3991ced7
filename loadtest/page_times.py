"""How long the pages of figures take over a year of a hundred nodes: `python -m loadtest.page_times`.

Headless Chromium opens Costs, Idle and each dashboard at each range, on the same cores as the server: cold, as the first page
of a server that has just started, and warm, on one that has answered before.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import chdb
from playwright.sync_api import Browser, BrowserContext, sync_playwright

from loadtest.abuse_watch import query_processes
from loadtest.rest import process_cpu_s
from loadtest.saying import keep_figures, say
from loadtest.timing_options import timing_parser
from schemas.tables import JOB_HOURS, NODE_HOURS
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.worker.storing.balances import keep_settled
from tests.page.conftest import CHROMIUM
from tests.page.real import serving_page
from tests.panels import year

_ROUNDS: Final = 5
_WITHIN_MS: Final = 120_000
#: For so long no further answer may come before a page counts as complete.
_QUIET_MS: Final = 600
#: Notes at each frame which panels have their answer by then, and what Costs and Idle show.
_WATCH: Final = """
(() => {
  const seen = (globalThis.seen = { at: {}, failed: {} });
  const note = (name) => (seen.at[name] ??= performance.now());
  const look = () => {
    for (const each of document.querySelectorAll('section.panel[aria-labelledby^="panel-"]')) {
      const name = each.getAttribute("aria-labelledby").slice("panel-".length);
      const words = each.querySelector(".panel-note");
      if (!words.hidden && words.textContent.startsWith("No answer")) seen.failed[name] = words.textContent;
      else if (!each.classList.contains("dimmed") && each.querySelector(".panel-foot a:not([hidden])")) note(name);
    }
    const fault = document.querySelector("[role=alert]:not([hidden])");
    if (fault) seen.failed.page = fault.textContent;
    const parts = document.querySelector(".costs-parts:not([hidden])");
    if (parts) note("rows");
    if (parts?.querySelector(".costs-chart:not(.dimmed) .timechart-plot:not([hidden])")) note("chart");
    if (document.querySelector(".idle-parts:not(.dimmed) > section")) note("tables");
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
})();
"""
#: Whether everything is there: each panel, the parts of Costs or the tables of Idle, and no request of the page is under way.
_IS_WHOLE: Final = """
(quietMs) => {
  const answers = performance.getEntriesByType("resource").filter((each) => /api.v1.(costs|idle|panels|dashboards.)/.test(each.name));
  const last = Math.max(0, ...answers.map((each) => each.responseEnd));
  const panels = document.querySelectorAll('section.panel[aria-labelledby^="panel-"]').length;
  const known = Object.keys(seen.at).length + Object.keys(seen.failed).length;
  const isCosts = seen.at.chart !== undefined && !document.querySelector(".costs-parts .dimmed");
  const isThere = seen.at.tables !== undefined || (panels > 0 ? known >= panels : isCosts);
  return (isThere && answers.length > 0 && performance.now() - last > quietMs) || seen.failed.page !== undefined;
}
"""
_FOUND: Final = """
() => ({
  ...seen,
  paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,
  answers: performance.getEntriesByType("resource").filter((each) => /api.v1.(costs|idle|panels|dashboards.)/.test(each.name))
    .map((each) => [each.name.replace(/.*api.v1./, ""), each.startTime, each.responseEnd]),
})
"""


class View(NamedTuple):
    """A page at a range."""

    name: str
    range: str
    address: str


VIEWS: Final = (
    *(View("costs", shown, f"costs?range={range_}") for shown, range_ in (("24h", "24h"), ("30d", "30d"), ("1y", "year"))),
    View("costs by job", "1y", "costs?range=year&by=job"),
    *(View("idle", range_, f"idle?range={range_}") for range_ in ("24h", "7d", "30d")),
    View("idle", "1y", "idle?range=all"),
    *(
        View(board, range_, f"dashboards/{board}?range={range_}&job={year.LONG_JOB}")
        for board in ("executive", "oncall", "debug")
        for range_ in ("1h", "24h", "30d", "1y")
    ),
)  # fmt: skip


class Times(NamedTuple):
    """Milliseconds since a page was asked for, and what it took."""

    paint_ms: float
    charts_ms: dict[str, float]  # by name
    whole_ms: float  # the last answer
    answers: int
    cpu_ms: float  # of the server with its processes; the browser's is not in it


class UnansweredError(Exception):
    """A page could not show what was asked."""


@contextmanager
def kept_store(directory: Path) -> Iterator[ClickHouseStore]:
    """The store of a year, made if it is not there: its months merged and its days kept ready, as a worker does within the hour."""
    done, target = directory / "done", Embedded(data_dir=directory)
    if not done.exists():
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        with closing(ClickHouseStore(target)) as store:
            year.load(store)
        engine = chdb.connect(str(target.engine_dir))
        for table in (JOB_HOURS, NODE_HOURS):
            engine.query(f"OPTIMIZE TABLE `{target.database}`.`{table}` FINAL")
        engine.close()
        done.touch()
    with closing(ClickHouseStore(target)) as store:
        keep_settled(store)
        yield store


def opened(context: BrowserContext, url: str, view: View) -> Times:
    """Open a page and wait until it is whole.

    Raises:
        UnansweredError: A panel of it has no answer.
    """
    began_s = _cpu_s()
    page = context.new_page()
    try:
        page.add_init_script(_WATCH)
        page.goto(f"{url}/#/{view.address}", wait_until="commit")
        page.wait_for_function(_IS_WHOLE, arg=_QUIET_MS, timeout=_WITHIN_MS)
        found = page.evaluate(_FOUND)
    finally:
        page.close()
    if found["failed"]:
        raise UnansweredError(f"{view.name} {view.range}: {found['failed']}")
    whole_ms = max(end_ms for _, _, end_ms in found["answers"])
    return Times(found["paint"], found["at"], whole_ms, len(found["answers"]), 1000 * (_cpu_s() - began_s))


def _cpu_s() -> float:
    """CPU of this process, which serves, and of its query processes."""
    return sum(process_cpu_s(pid) for pid in (os.getpid(), *query_processes(os.getpid())))


def measured(browser: Browser, store: ClickHouseStore, view: View, rounds: int) -> dict[str, Any]:
    """Medians of a page: `cold` and `warm`."""
    cold = []
    for _ in range(rounds):
        with serving_page(store) as url, browser.new_context() as context:
            cold.append(opened(context, url, view))
    with serving_page(store) as url, browser.new_context() as context:
        opened(context, url, view)
        warm = [opened(context, url, view) for _ in range(rounds)]
    return {"page": view.name, "range": view.range, "cold": _medians(cold), "warm": _medians(warm)}


def _medians(times: Sequence[Times]) -> dict[str, Any]:
    charts = {
        name: round(statistics.median(each.charts_ms[name] for each in times)) for name in times[0].charts_ms
    }
    return {
        "paint_ms": round(statistics.median(each.paint_ms for each in times)),
        "charts_ms": charts,
        "chart_ms": max(charts.values()),
        "whole_ms": round(statistics.median(each.whole_ms for each in times)),
        "answers": times[0].answers,
        "cpu_ms": round(statistics.median(each.cpu_ms for each in times)),
    }


def line_of(found: Mapping[str, Any], load: float) -> str:
    """A line of the table."""
    cells = [
        f"{each['paint_ms']:7,}{each['chart_ms']:8,}{each['whole_ms']:8,}{each['cpu_ms']:8,}"
        for each in (found["cold"], found["warm"])
    ]
    return f"{found['page']:14}{found['range']:>4} {''.join(cells)}{found['warm']['answers']:9}{load:7.1f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured, 1 a page could not show something."""
    options = timing_parser("page_times", __doc__, _ROUNDS).parse_args(argv)
    figures = []
    say(
        f"{'ms':18} {'cold: paint, charts, all, CPU':>31}{'warm: paint, charts, all, CPU':>31}  answers   load"
    )
    with kept_store(options.store) as store, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        for view in VIEWS:
            if options.only in f"{view.name} {view.range}":
                try:
                    figures.append(measured(browser, store, view, options.rounds))
                except UnansweredError as fault:
                    sys.stderr.write(f"page_times: {fault}\n")
                    return 1
                say(line_of(figures[-1], os.getloadavg()[0]))
        browser.close()
    keep_figures(options.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
