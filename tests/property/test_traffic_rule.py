"""The rule `traffic` against the plain judge: jobs that move just enough, and just too little, and each threshold off by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest

from schemas.tables import ALERTS
from tests.oracle import burn as plain_burn
from tests.oracle import job_rules as plain
from tests.oracle import judge as plain_judge
from tests.oracle.cases import T0, job, network, price
from tests.oracle.knowledge import in_log_time
from tests.oracle.model import MINUTE_MS, Line
from tests.property.job_rule_stories import PRICES
from tests.property.test_alerts import alerts_differ
from tests.property.watching import Watching
from tests.strategies.logs import time_of

M = MINUTE_MS
#: Minutes of the job's life: from, to, and dollars per hour that it pays for traffic meanwhile.
Moves = Sequence[tuple[int, int, float]]


def _job(minutes: int, moves: Moves, *, gpus: int = 4, ends: int = 0, **said: object) -> list[Line]:
    """A job of $16.40/h on GPUs, or of $3.20/h on CPUs, that reports every five minutes what it moved."""
    held = {"gpu_count": gpus, "purchase": "on_demand"} if gpus else {"gpu_count": 0, "cpu_count": 64}
    lines = [*PRICES, price("cpu", "0.05", component="compute", per="vcpu_hour")]
    lines.append(job("j", "started", T0, **held, **said))
    lines += [job("j", "heartbeat", T0 + minute * M) for minute in range(5, ends or minutes, 5)]
    for from_minute, to_minute, usd_per_hour in moves:
        for minute in range(from_minute + 5, to_minute + 1, 5):
            amount = round(usd_per_hour / 12 / 0.09 * 10**9)
            lines.append(network("j", T0 + minute * M, 5 * M, bytes=amount, path="internet"))
    if ends:
        lines.append(job("j", "completed", T0 + ends * M))
    return sorted([*lines, job("x", "queued", T0 + minutes * M)], key=time_of)


def _bursts(every: int, number: int, usd: float, long: int = 20) -> Moves:
    """The same again and again, in so many minutes each time."""
    return [(k * every, k * every + long, usd * 60 / long) for k in range(number)]


LOGS: dict[str, tuple[list[Line], list[tuple[int, str]]]] = {
    "fetches what it needs": (_job(130, [(5, 45, 50)]), []),
    "fetches it again each hour": (_job(260, _bursts(60, 4, 8.5)), [(149, "ticket")]),
    "twice is not again": (_job(200, _bursts(60, 2, 8.5)), []),
    "too little each hour": (_job(260, _bursts(60, 4, 8.1)), []),
    "fetches it again each two hours": (_job(300, _bursts(120, 3, 17)), [(269, "ticket")]),
    "reads as it goes": (_job(260, [(0, 255, 16)]), []),
    "reads more as it goes": (_job(260, [(0, 255, 17)]), [(190, "ticket")]),
    "reads on CPUs": (_job(260, [(0, 255, 20)], gpus=0), []),
    "reads on CPUs twice as much": (_job(200, [(0, 90, 20), (90, 195, 42)], gpus=0), [(145, "ticket")]),
    "moves at once": (_job(200, [(90, 180, 40)]), [(115, "ticket")]),
    "moves a little": (_job(200, [(90, 195, 4.9)], gpus=0), []),
    "moves enough": (_job(200, [(90, 195, 5.1)], gpus=0), [(150, "ticket")]),
    "moves much": (_job(120, [(70, 115, 240)]), [(80, "page")]),
    "moves much in its first hour": (_job(80, [(0, 60, 160)]), [(40, "page")]),
    "moves not so much in its first hour": (_job(80, [(0, 60, 99)]), []),
    "declares it": (_job(200, [(90, 180, 40)], expected_usd_per_hour="47"), []),
    "declares less": (_job(200, [(90, 180, 40)], expected_usd_per_hour="46"), [(150, "ticket")]),
    "falls to 85 % of what opens it": (_job(235, [(90, 135, 40), (135, 230, 13.9)]), [(115, "ticket")]),
    "falls to 77 % of what opens it": (_job(235, [(90, 135, 40), (135, 230, 12.6)]), [(115, "ticket")]),
    "has ended": (_job(180, [(90, 170, 40)], ends=110), []),
}
#: Each mistake, with the log that finds it.
BREAKS: dict[str, tuple[str, Callable[[plain_burn.Burn], plain_burn.Burn]]] = {
    "on CPUs, too": ("reads on CPUs", lambda now: replace(now, on_gpus=True)),
    "nothing expected": ("declares it", lambda now: replace(now, quoted=0, declared=[])),
}
OFF_BY_ONE: tuple[tuple[str, Fraction, str], ...] = (
    ("usd_per_hour", Fraction(6), "moves enough"),
    ("ratio", Fraction("1.1"), "moves at once"),
    ("ratio", Fraction("0.9"), "reads as it goes"),
    ("start_times", Fraction(1), "reads on CPUs twice as much"),
    ("start_times", Fraction(3), "reads on CPUs twice as much"),
    ("repeated_ratio", Fraction("0.45"), "too little each hour"),
    ("repeated_ratio", Fraction("0.6"), "fetches it again each hour"),
    ("page_usd_per_hour", Fraction(90), "moves not so much in its first hour"),
    ("page_usd_per_hour", Fraction(110), "moves much in its first hour"),
)


@pytest.fixture(scope="module")
def moving() -> dict[str, Watching]:
    """Each log as the meter judged it, like the plain judge did."""
    found: dict[str, Watching] = {}
    for name, (lines, _) in LOGS.items():
        watching = found[name] = Watching(in_log_time(lines))
        watching.feed(len(watching.told))
        watching.checkpoint()
        assert alerts_differ(watching, watching.told) == [], name
    return found


def test_each_fires_when_it_should(moving: dict[str, Watching]) -> None:
    fired = {
        name: [
            (round((row["started"].timestamp() * 1000 - T0) / M), row["severity"])
            for row in watching.rows(ALERTS)
            if row["rule"] == "traffic"
        ]
        for name, watching in moving.items()
    }
    assert fired == {name: wanted for name, (_, wanted) in LOGS.items()}
    others = {row["rule"] for watching in moving.values() for row in watching.rows(ALERTS)} - {"traffic"}
    assert not others, "one cause has one message"


def _is_found_out(watching: Watching) -> bool:
    return bool(alerts_differ(watching, watching.told))


@pytest.mark.parametrize(("name", "value", "log"), OFF_BY_ONE)
def test_a_threshold_that_is_off_is_found_out(
    moving: dict[str, Watching], name: str, value: Fraction, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = plain.DEFAULTS | {"traffic": plain.DEFAULTS["traffic"] | {name: value}}
    monkeypatch.setattr(plain, "DEFAULTS", changed)
    assert _is_found_out(moving[log])


def test_each_threshold_is_tried() -> None:
    assert {name for name, *_ in OFF_BY_ONE} == plain.DEFAULTS["traffic"].keys()


@pytest.mark.parametrize("broken", BREAKS)
def test_a_part_of_it_that_is_left_out_is_found_out(
    moving: dict[str, Watching], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, changed = BREAKS[broken]
    moves = plain_burn.Burn.moves
    monkeypatch.setattr(plain_burn.Burn, "moves", lambda now, *at, **how: moves(changed(now), *at, **how))
    assert _is_found_out(moving[log])


def test_traffic_of_an_ended_job_would_be_found_out(
    moving: dict[str, Watching], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        plain_judge.FACTS, "traffic", ("ticket", lambda now, at_ms: now.moves(at_ms, goes_on=False))
    )
    assert _is_found_out(moving["has ended"])
