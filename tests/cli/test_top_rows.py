"""Which columns fit, in what order jobs stand, what cells say."""

from __future__ import annotations

from decimal import Decimal
from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console

from streams.cli.top.figures import AlertView, Job, JobAlert
from streams.cli.top.lines import ago, alert_lines, details
from streams.cli.top.rows import (
    BY_KEY,
    COLUMNS,
    SORT_CYCLE,
    SORTS,
    Order,
    alert_sign,
    cells,
    heading,
    layout,
    matching,
    middle,
    money,
    ordered,
    ratio_sign,
    sparkline,
)


def job(name: str, now: float = 1, ratio: float | None = 1.0, cost: float = 0, **more: str) -> Job:
    burn = Decimal(str(now))
    return Job(job_id=name, usd_per_hour_now=burn, ratio=ratio, cost_usd=Decimal(str(cost)), **more)  # type: ignore[arg-type]  # texts only


def names(jobs: list[Job]) -> list[str]:
    return [each.job_id for each in jobs]


def test_gpu_time_without_a_price_is_no_zero() -> None:
    column = [(BY_KEY["cost"], 9)]
    unpriced = Decimal("2.5")
    shown = [
        cells(replace(job("j", cost=cost), unpriced_gpu_h=hours), column)[0].plain.strip()
        for cost, hours in ((0, unpriced), (12.5, unpriced), (12.5, Decimal(0)), (0, Decimal(0)))
    ]
    assert shown == ["unpriced", "≥12.50", "12.50", "0.00"]
    written = StringIO()
    console = Console(file=written, width=120)
    console.print(details(replace(job("j"), unpriced_gpu_h=unpriced), (), 0, 120))
    console.print(details(replace(job("j", cost=3), unpriced_gpu_h=unpriced), (), 0, 120))
    text = written.getvalue()
    assert "unpriced: 2.5 GPU-hours have no price" in text
    assert "at least $3.00 so far" in text


def test_columns_never_exceed_the_width() -> None:
    for width in range(1, 240):
        columns = layout(width)
        assert sum(room + 1 for _, room in columns) <= width
        assert all(column.least <= room <= column.most for column, room in columns)


def test_eighty_columns_have_what_matters_and_wide_ones_everything() -> None:
    assert [column.key for column, _ in layout(79)] == [
        "mark", "job", "owner", "state", "gpus", "now", "ratio", "cost", "spark",
    ]  # fmt: skip
    assert [column for column, _ in layout(160)] == list(COLUMNS)


@pytest.mark.parametrize("width", [20, 79, 119, 159])
def test_every_cell_is_as_wide_as_its_column(width: int) -> None:
    wide = job(
        "作業" * 30, 123_456_789, 12_345.6, 1e9, owner="o\x1b[2J" * 9, team="t" * 40, state="superseded"
    )
    for each in (wide, job("j", 0, None), job("k", 0.000000001, 0.01)):
        columns = layout(width)
        for (_, room), cell in zip(columns, cells(each, columns), strict=True):
            assert cell.cell_len == room + 1, cell.plain
    assert all(heading(column, room, Order()).cell_len == room + 1 for column, room in layout(width))


def test_jobs_are_sorted_both_ways_and_what_has_no_value_comes_last() -> None:
    jobs = [job("a", 1, 2.0), job("b", 3, None), job("c", 2, 5.0)]
    assert names(ordered(jobs, Order())) == ["b", "c", "a"]
    assert names(ordered(jobs, Order().reversed())) == ["a", "c", "b"]
    assert names(ordered(jobs, Order("ratio"))) == ["c", "a", "b"]
    assert names(ordered(jobs, Order("ratio", descending=False))) == ["a", "c", "b"]
    assert names(ordered(jobs, Order.natural("job"))) == ["a", "b", "c"]


def test_equals_are_sorted_by_cost_then_name() -> None:
    jobs = [job("b", 0, cost=1), job("a", 0, cost=1), job("c", 0, cost=9)]
    assert names(ordered(jobs, Order())) == ["c", "a", "b"]


def test_the_next_sort_goes_through_all_of_them_and_round() -> None:
    order, seen = Order(), []
    for _ in SORT_CYCLE:
        seen.append(order.key)
        order = order.after()
    assert order == Order()
    assert sorted(seen) == sorted(SORTS)


def test_a_column_that_has_nothing_to_sort_by_is_refused() -> None:
    with pytest.raises(ValueError, match="spark"):
        ordered([], Order("spark"))


def test_a_filter_wants_every_word_in_any_field_and_case() -> None:
    loud = Job(job_id="train-7b", owner="Ada", state="running", alerts=(JobAlert(rule="burn_fast"),))
    quiet = Job(job_id="eval", team="vision", project="atlas", state="running")
    assert matching([loud, quiet], "") == [loud, quiet]
    assert matching([loud, quiet], "RUNNING ada") == [loud]
    assert matching([loud, quiet], "burn_fast") == [loud]
    assert matching([loud, quiet], "atlas vis") == [quiet]
    assert matching([loud, quiet], "ada vision") == []


@pytest.mark.parametrize(
    ("ratio", "shown", "colour"),
    [
        (None, "-", "dim"),
        (0.2, "0.20▽", "cyan"),
        (1.0, "1.00", "green"),
        (1.5, "1.50▲", "yellow"),
        (2.5, "2.50▲▲", "bold red"),
        (8.0, "8.00▲▲", "bold red"),
        (123.4, "123▲▲", "bold red"),
    ],
)
def test_a_ratio_has_a_sign_where_it_has_a_colour(ratio: float | None, shown: str, colour: str) -> None:
    text, style = ratio_sign(ratio)
    assert (text.strip(), style) == (shown, colour)


def test_a_page_outshines_a_ticket_and_resolved_alerts_have_no_sign() -> None:
    page, ticket = JobAlert(severity="page"), JobAlert(severity="ticket")
    assert alert_sign(Job("j", alerts=(ticket, page)))[0] == "●"
    assert alert_sign(Job("j", alerts=(ticket,)))[0] == "○"
    assert alert_sign(Job("j", alerts=(JobAlert(severity="page", status="resolved"),)))[0] == " "


def test_sparklines_show_the_newest_from_zero() -> None:
    points = [(at, float(at)) for at in range(9)]
    assert sparkline(points, 20).strip() == "▂▃▄▅▆▇██"
    assert sparkline(points, 3) == "▇██"
    assert sparkline([(0, 0.0), (1, 0.001), (2, 100.0)], 5) == "   ▁█"
    assert sparkline([(0, 0.0)], 5).strip() == ""
    assert sparkline([], 5) == ""


@pytest.mark.parametrize(
    ("usd", "shown"),
    [
        ("0", "0.00"), ("0.001", "<0.01"), ("0.05", "0.05"), ("0.126", "0.13"), ("1.234", "1.23"), ("9999.99", "9,999.99"),
        ("10000.4", "10,000"), ("1234567", "1.23M"),
    ],
)  # fmt: skip
def test_money_fits_its_column(usd: str, shown: str) -> None:
    assert money(Decimal(usd)) == shown


def test_names_cannot_steer_the_terminal_and_are_cut_in_their_middle() -> None:
    hostile = Job(job_id="a\x1b[31mb\nc\x07", owner="\u202eada")
    columns = [(BY_KEY["job"], 34), (BY_KEY["owner"], 16)]
    assert [cell.plain.strip() for cell in cells(hostile, columns)] == [r"a\x1b[31mb\nc\x07", r"\u202eada"]
    assert middle("pretrain-0042", 30) == "pretrain-0042"
    assert middle("pretrain-mixture-0042", 12) == "pretra…-0042"


@pytest.mark.parametrize(
    ("for_ms", "said"),
    [(0, "0 s"), (59_000, "59 s"), (61_000, "1 min 1 s"), (3_600_000, "1 h"), (90_000_000, "1 d 1 h"), (86_460_000, "1 d")],
)  # fmt: skip
def test_durations_have_two_units_at_most(for_ms: int, said: str) -> None:
    assert ago(for_ms) == said


def test_brackets_of_a_name_are_no_markup() -> None:
    out = StringIO()
    Console(file=out, width=80).print(details(Job("[b]x[/i]"), (), 0, 80))
    assert out.getvalue().count("[b]x[/i]") == 2


def test_titles_of_any_length_leave_alerts_in_columns() -> None:
    rules = ("burn_fast", "billed_gone", "team-of-nine-letters-too-many-for-it")
    alerts = [AlertView(f"al_{rule}", rule=rule, status="firing", summary=f"of {rule}") for rule in rules]
    lines = alert_lines(alerts, 60_000).plain.split("\n")
    assert len({line.index("  of ") for line in lines}) == 1
