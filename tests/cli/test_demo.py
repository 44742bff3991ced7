"""`trainfare demo` as a newcomer runs it: burn rates, a page that is delivered, a summary, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import ROOT, Done, trainfare

#: The runaway is paged 18 min 40 s after the start of the fleet's time: 9.3 s.
SPEED, SECONDS = 120, 14


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "data"


@pytest.fixture(scope="module")
def done(kept: Path) -> Done:
    """A whole run."""
    return trainfare("demo", "--seconds", SECONDS, "--speed", SPEED, "--port", 0, "--data", kept)


def test_it_ends_by_itself(done: Done) -> None:
    assert (done.code, done.err) == (0, "")


def test_it_says_that_time_is_simulated(done: Done) -> None:
    assert f"simulated fleet, {SPEED}x time (2 min a second) from 20" in done.out


def test_it_shows_burn_rates(done: Done) -> None:
    burning = re.findall(
        r"^14:\d\d:\d\d  \$[\d,]+\.\d\d/h  (\d\d) jobs on (\d{3}) GPUs", done.out, re.MULTILINE
    )
    assert len(burning) >= 3
    assert all(30 <= int(jobs) <= 45 and 300 <= int(gpus) <= 480 for jobs, gpus in burning)


def test_the_runaway_pages_its_owner_and_nobody_else_is_paged(done: Done) -> None:
    pages = [line for line in done.out.splitlines() if line.startswith("delivered  page ")]
    (page,) = pages
    assert page.startswith("delivered  page      burn_fast  job llm-7b-pretrain  owner ada  ")
    assert page.endswith("  $303.89/h (2.7x expected $112.05/h over 15 min)")


def test_it_resolves_once_the_owner_has_scaled_back(done: Done) -> None:
    assert "delivered  resolved  burn_fast  job llm-7b-pretrain  owner ada  after 7 min 20 s" in done.out


def test_what_has_no_price_is_a_ticket(done: Done) -> None:
    assert re.search(
        r"^delivered  ticket    unpriced  job b200-bringup  owner radia  ", done.out, re.MULTILINE
    )


def test_the_summary_says_what_it_came_to(done: Done) -> None:
    found = dict(
        re.findall(r"^(\w[\w ]{1,12}?)\s{2,}(\S.*)$", done.out.partition("ran for")[2], re.MULTILINE)
    )
    assert int(found["jobs metered"]) > 80
    assert float(found["GPU hours"].replace(",", "")) > 2_000
    assert re.match(r"\$[\d,]+\.\d\d, of it \$", found["dollars"])
    assert found["alerts"] == "4; 5 messages delivered"
    assert found["books balance"].startswith("yes: ")
    assert found["books balance"].endswith(" + 0 duplicate + 0 refused")


def test_its_secret_is_in_no_output(done: Done) -> None:
    assert "whsec" not in done.out + done.err


def test_what_is_kept_can_be_asked(done: Done, kept: Path) -> None:
    assert f"in {kept}: trainfare jobs --data {kept}" in done.out
    question = (
        "SELECT rule, alerts.status AS status, deliveries.status AS told, outcome, http_status, receiver "
        "FROM alerts FINAL JOIN deliveries FINAL USING alert_id ORDER BY rule, told"
    )
    rows = json.loads(trainfare("sql", question, "--data", kept, "--format", "json").out)
    assert [(row["rule"], row["told"], row["outcome"], row["http_status"]) for row in rows] == [
        ("burn_fast", "firing", "delivered", 204),
        ("burn_fast", "resolved", "delivered", 204),
        ("idle_gpus", "firing", "delivered", 204),  # a notebook and a debug session that nobody closed
        ("idle_gpus", "firing", "delivered", 204),
        ("unpriced", "firing", "delivered", 204),
    ]


def test_a_directory_of_another_run_is_refused(done: Done, kept: Path) -> None:
    again = trainfare("demo", "--seconds", 1, "--port", 0, "--data", kept)
    assert again.code == 2
    assert "give each demo a directory of its own" in again.err.splitlines()[-1]


def test_a_port_that_is_taken_is_said_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = trainfare("demo", "--seconds", 1, "--port", port)
    assert refused.code == 1
    line = refused.one_line()
    assert str(port) in line
    assert "--port" in line
    assert refused.out == ""


@pytest.mark.parametrize("words", [("--speed", 0.5), ("--speed", 601), ("--seconds", 0), ("--port", 70_000)])
def test_what_cannot_be_is_wrong_use(words: tuple[object, ...]) -> None:
    assert trainfare("demo", *words).code == 2


def test_ctrl_c_ends_it_with_the_summary_and_nothing_is_left(tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRAINFARE_")}
    with subprocess.Popen(
        [sys.executable, "-m", "streams.cli.main", "demo", "--port", "0"],
        env={**inherited, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if " jobs on " in line:
                assert list(tmp_path.glob("trainfare-demo-*"))
                run.send_signal(signal.SIGINT)
                break
        out, err = run.communicate(timeout=60)
    assert (run.returncode, err) == (0, "")
    assert "books balance   yes: " in out
    assert "nothing is kept" in out
    assert list(tmp_path.glob("trainfare-demo-*")) == []
