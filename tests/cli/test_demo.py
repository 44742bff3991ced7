"""`trainfare demo` as a newcomer runs it: burn rates, the alerts of its stories, a summary, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from streams.demo.stories import PARTS
from streams.demo.story_logs import STORIES
from streams.engine.alerts.titles import TITLES
from tests.cli.command import ROOT, Done, trainfare
from tests.docs.shown_stories import shown_alerts
from tests.docs.test_readme_demo import SHOWN as README_SHOWN

#: An hour and 50 minutes of the fleet's time: the last alert of a story fires 1 h 47 min after its start.
SPEED, SECONDS = 600, 11
#: The time of day at which the demo's log begins.
BEGINS = "09:50:00"
ALERT = re.compile(r"(\d\d:\d\d:\d\d)  (page|ticket|resolved) +(\S.*?) +to (\S+) +(.*)")
#: The demo names rules by their titles.
RULES = {title: rule for rule, title in TITLES.items()}
INSTANT = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d)?")


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
    assert f"simulated fleet, {SPEED}x time (10 min a second) from 20" in done.out


def test_it_shows_burn_rates(done: Done) -> None:
    burning = re.findall(
        r"^\d\d:\d\d:\d\d  \$[\d,]+\.\d\d/h  (\d+) jobs on (\d+) GPUs", done.out, re.MULTILINE
    )
    # The lines of a slow machine show a fleet whose history is still being metered: some of its 50 jobs.
    jobs, gpus = max((int(jobs), int(gpus)) for jobs, gpus in burning)
    assert 5 <= jobs <= 60
    assert 5 * jobs <= gpus <= 25 * jobs


def alerts_of(done: Done, rule: str) -> list[tuple[str, ...]]:
    """Return (time, severity or `resolved`, owner, sentence) of a rule's messages, in order."""
    found = (ALERT.fullmatch(line) for line in done.out.splitlines())
    return [
        (line[1], line[2], line[4], line[5]) for line in found if line is not None and line[3] == TITLES[rule]
    ]


def test_runaways_page_their_owners_and_are_resolved_once_scaled_back(done: Done) -> None:
    paged, resolved, next_paged, next_resolved = alerts_of(done, "burn_fast")
    assert paged[:3] == ("10:08:40", "page", "ada")
    assert paged[3].startswith(
        "llm-7b-pretrain burns $896/h, $304/h over 15 min, 2.7x the $112/h expected: 128 GPUs since 10:05"
    )
    assert resolved == ("10:16:00", "resolved", "ada", "job llm-7b-pretrain, after 7 min 20 s")
    assert [line[1:3] for line in (next_paged, next_resolved)] == [("page", "alan"), ("resolved", "alan")]


def test_what_has_no_price_is_a_ticket(done: Done) -> None:
    (opened,) = alerts_of(done, "missing_price")
    assert opened[:3] == ("10:05:00", "ticket", "-")
    assert opened[3].startswith("1 job (most: b200-bringup, ")


def test_the_summary_says_what_it_came_to(done: Done) -> None:
    found = dict(
        re.findall(r"^(\w[\w ]{1,12}?)\s{2,}(\S.*)$", done.out.partition("ran for")[2], re.MULTILINE)
    )
    assert int(found["jobs metered"]) > 200
    assert float(found["GPU hours"].replace(",", "")) > 3_000
    assert re.match(r"\$[\d,]+\.\d\d, of it \$", found["dollars"])
    assert found["alerts"] == "15; 20 messages delivered"
    assert found["books balance"].startswith("yes: ")
    assert found["books balance"].endswith(" + 0 duplicate + 0 refused")


def test_the_readme_shows_what_was_delivered(done: Done) -> None:
    shown = [line for line in README_SHOWN if ALERT.fullmatch(line)]
    assert {"burn_fast", "retry_loop"} <= {
        RULES[found[3]] for line in shown if (found := ALERT.fullmatch(line))
    }
    out = INSTANT.sub("-", done.out).splitlines()
    assert [line for line in shown if INSTANT.sub("-", line) not in out] == []


def test_its_secret_is_in_no_output(done: Done) -> None:
    assert "whsec" not in done.out + done.err


def test_what_is_kept_can_be_asked(done: Done, kept: Path) -> None:
    assert f"in {kept}: trainfare jobs --data {kept}" in done.out
    question = (
        "SELECT outcome, http_status, count() AS messages, uniqExact(alert_id) AS alerts"
        " FROM deliveries FINAL GROUP BY ALL"
    )
    rows = json.loads(trainfare("sql", question, "--data", kept, "--format", "json").out)
    assert rows == [{"outcome": "delivered", "http_status": 204, "messages": 20, "alerts": 15}]


def told(done: Done) -> set[tuple[str, str, str, str]]:
    """(time of day, severity, rule, sentence) of each alert that fired."""
    found = (ALERT.fullmatch(line) for line in done.out.splitlines())
    return {
        (line[1], line[2], RULES.get(line[3], line[3]), comparable(line[5]))
        for line in found
        if line is not None and line[2] != "resolved"
    }


def comparable(sentence: str) -> str:
    """A sentence without its dates and times, and without shares of the fleet, which is larger here."""
    undated = re.sub(r"\d\d:\d\d(:\d\d)?", "-", INSTANT.sub("-", sentence))
    return re.sub(r"\d+ %( of the fleet| \(rule)", r"%\1", undated)


def of_page(name: str) -> set[tuple[str, str, str, str]]:
    """The same of a story as its page has them, at the demo's time of day."""
    moved = timedelta(milliseconds=PARTS[name].delay_ms)
    return {
        (f"{fired + moved:%H:%M:%S}", severity, rule, comparable(sentence))
        for fired, severity, rule, sentence in shown_alerts(name)
    }


def at_the_start(name: str) -> set[tuple[str, ...]]:
    """(time of day, severity, rule) of alerts that a story has before the log begins: rules across jobs are judged from there on."""
    return {(BEGINS, severity, rule) for fired, severity, rule, _ in of_page(name) if fired < BEGINS}


@pytest.mark.parametrize("name", STORIES)
def test_a_story_has_the_alerts_of_its_page(name: str, done: Done) -> None:
    assert of_page(name)
    assert {each for each in of_page(name) if each[0] >= BEGINS} - told(done) == set()
    assert at_the_start(name) <= {each[:3] for each in told(done)}


def test_the_fleet_beside_has_its_own_alerts_only(done: Done) -> None:
    at_the_start_of_all = set().union(*map(at_the_start, STORIES))
    others = told(done).difference(*map(of_page, STORIES))
    others = {each for each in others if each[:3] not in at_the_start_of_all}
    assert sorted((rule, sentence.split()[0]) for *_, rule, sentence in others) == [
        ("burn_fast", "distill-1b"),
        ("burn_fast", "llm-7b-pretrain"),
        ("idle_gpus", "debug-big-batch"),
        ("missing_price", "1"),  # job: b200-bringup
        ("provisioning_burst", "16"),  # nodes of the two runaways
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
