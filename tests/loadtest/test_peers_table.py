"""What was measured, wrong, missing or disturbed is seen in the table, and in the result for programs."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

from rich.console import Console

from loadtest.peers.results import Row, Run, as_json, cpu_per_million_messages, notes, table_of, times

RUN = Run(
    messages=1_000_000, samples=8_000_000, wall_s=2.0, cpu_s=3.0, whole_cpu_s=4.0,
    peak_rss_mib=100.0, start_s=1.5, others_cores=0.1,
)  # fmt: skip


def row(name: str, *found: Run, missing: str | None = None) -> Row:
    return Row(name, "1.0", "w2", f"what {name} does", RUN.messages, list(found), missing)


def test_cold_and_wrong_runs_do_not_count() -> None:
    one = row(
        "a", replace(RUN, cold=True, wall_s=90.0), RUN, replace(RUN, wall_s=4.0), replace(RUN, fault="x")
    )
    assert one.spread(lambda run: run.wall_s) == (3.0, 2.0, 4.0)
    assert one.faults == ["x"]
    assert row("b").spread(lambda run: run.wall_s) is None


def test_ratios_are_of_medians() -> None:
    mine, theirs = row("ours", RUN), row("theirs", replace(RUN, wall_s=8.0, cpu_s=30.0))
    assert times(mine, theirs) == 4.0
    assert times(mine, theirs, cpu_per_million_messages) == 0.1
    assert times(mine, row("none")) is None


def text_of(rows: list[Row], mine: Row | None) -> str:
    out = StringIO()
    Console(file=out, width=220).print(table_of("W2", rows, mine, mine))
    return out.getvalue()


def test_the_table_shows_rates_ratios_and_what_could_not_be_run() -> None:
    mine = row("trainfare", RUN)
    slow = row(
        "slow", replace(RUN, wall_s=50.0, cpu_s=60.0), replace(RUN, wall_s=40.0, cpu_s=60.0, start_s=0.5)
    )
    text = text_of(
        [
            slow,
            row("gone", missing="cannot be installed here: no wheel"),
            row("bad", replace(RUN, fault="3 off")),
            mine,
        ],
        mine,
    )
    lines = {line.split("│")[1].strip(): line for line in text.splitlines() if line.startswith("│")}
    assert "22,500 (20,000..25,000)" in lines["slow"]
    assert "180,000" in lines["slow"]
    assert "60.00" in lines["slow"]
    assert "22x" in lines["slow"]  # half to even
    assert "20x" in lines["slow"]
    assert "not run: below" in lines["gone"]
    assert "WRONG: below" in lines["bad"]
    assert "1.00x" in lines["trainfare"]
    assert "~" not in text


def test_a_row_of_a_busy_machine_is_marked() -> None:
    text = text_of([row("a", replace(RUN, others_cores=0.5))], None)
    assert "~500,000 (500,000..500,000)" in text


def test_notes_say_what_each_does_and_its_cold_run() -> None:
    found = notes([row("a", replace(RUN, cold=True, wall_s=4.0), replace(RUN, note="said"))])
    assert found == ["w2 a: what a does; cold 250,000 messages/s at 3.0 CPU s/M; said"]
    assert notes([row("a", missing="no wheel")]) == ["w2 a: NO RESULT: no wheel; what a does"]


def test_json_holds_every_run_and_the_ratios() -> None:
    mine, theirs = row("trainfare", RUN), row("theirs", replace(RUN, wall_s=8.0, cpu_s=30.0))
    gone = row("gone", missing="why")
    found = json.loads(json.dumps(as_json([theirs, gone, mine], {"w2": mine}, {"w2": mine}, {"cores": 2})))
    assert found["machine"] == {"cores": 2}
    by_name = {each["name"]: each for each in found["rows"]}
    assert by_name["theirs"]["messages_per_s"] == {"median": 125_000.0, "min": 125_000.0, "max": 125_000.0}
    assert by_name["theirs"]["ours_times_rate"] == 4.0
    assert by_name["theirs"]["ours_times_cpu"] == 0.1
    assert by_name["theirs"]["runs"][0]["wall_s"] == 8.0
    assert by_name["gone"]["faults"] == ["why"]
    assert by_name["gone"]["messages_per_s"] is None
