"""A source of snapshots that does what it is told, and the live view over it as a terminal shows it."""

from __future__ import annotations

from decimal import Decimal
from io import StringIO

from rich.console import Console

from streams.cli.top.figures import AlertView, Burn, Job, MeterView, Subject
from streams.cli.top.view import View
from streams.clock import ManualClock

T0_MS = 1_772_366_400_000


def job(number: int, now: float, **more: object) -> Job:
    fields = {
        "owner": f"owner-{number % 3}",
        "team": "red",
        "state": "running",
        "gpu_count": Decimal(8),
    } | more
    return Job(job_id=f"job-{number:03d}", usd_per_hour_now=Decimal(str(now)), ratio=1.0, **fields)  # type: ignore[arg-type]  # as given


def snapshot(*jobs: Job, alerts: tuple[AlertView, ...] = (), as_of_ms: int = T0_MS) -> MeterView:
    burn = Burn(
        as_of_ms, Decimal(123), Decimal(100), Decimal(2_000), 0.25, len(jobs), Decimal(64), len(alerts)
    )
    return MeterView(as_of_ms, burn, jobs, alerts, "a script")


class Script:
    """Gives what it is told to, and counts how often it was asked."""

    def __init__(self, *jobs: Job, alerts: tuple[AlertView, ...] = ()) -> None:
        self.now: MeterView | Exception = snapshot(*jobs, alerts=alerts)
        self.asked = 0

    def fetch(self, words: str = "") -> MeterView:
        self.words = words
        self.asked += 1
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


THREE = (job(1, 5, cost_usd=Decimal(900)), job(2, 50), job(3, 7, owner="zoe"))
PAGE = AlertView(
    "al_1",
    "burn_fast",
    "page",
    "firing",
    Subject("job", "job-002"),
    "ann",
    T0_MS - 60_000,
    summary="too fast",
)


class Terminal:
    """A view, a size, and keys."""

    def __init__(self, *jobs: Job, alerts: tuple[AlertView, ...] = (), now_ms: int = T0_MS) -> None:
        self.clock = ManualClock(now_ms)
        self.view = View(self.clock)
        self.width, self.height = 80, 24
        self.view.answered(snapshot(*jobs, alerts=alerts))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.view.press(key)
            self.lines()  # as the terminal draws after each key

    def lines(self) -> list[str]:
        console = Console(file=StringIO(), width=self.width, height=self.height, record=True)
        console.print(self.view.screen(self.width, self.height), end="")
        return console.export_text().splitlines()

    def listed(self) -> list[str]:
        return [line[2:9] for line in self.lines() if line[2:6] == "job-"]

    def titles(self) -> list[str]:
        line = next(line for line in self.lines() if " job " in line and "$/h now" in line)
        return line.replace("/h now", "/h_now").split()

    def bar(self) -> str:
        """The job on the line that is drawn in reverse."""
        console = Console(file=StringIO(), width=self.width, height=self.height, force_terminal=True)
        lines = console.render_lines(self.view.screen(self.width, self.height))
        (found,) = (line for line in lines if any(each.style and each.style.reverse for each in line))
        return "".join(each.text for each in found)[2:9]
