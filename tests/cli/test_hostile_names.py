"""Names that would steer a terminal, forge a line or turn one round: every output path is walked, and its bytes are looked at."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer import BadParameter

from schemas.escaping import visible
from streams.cli import demo_lines
from streams.cli.faults import guarded
from streams.cli.output import OutputFormat
from streams.cli.top.command import write_snapshot
from streams.cli.top.figures import AlertView, Burn, Job, MeterView, Subject
from streams.cli.top.lines import alert_lines, details
from streams.errors import TrainfareError
from streams.notify.webhooks.receiver import Received
from tests.cli.command import ROOT, trainfare
from tests.forked import FORKER, without_settings

T0 = 1_780_308_000_000
#: Sets the clipboard of many terminals; clears the screen; forges a line; turns the line round.
HOSTILE = "j\x1b]52;c;aGk=\x07\x1b[2J\r\nforged\u202e\u2066\x9b2J\u200b\u2028"
SHOWN = visible(HOSTILE)
# Of our own making: colours, and what a line of progress (of a command that takes two seconds) is drawn and taken away with.
_STYLE = re.compile(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\r?\x1b\[1A|\r?\x1b\[2K")


def event(topic: str, number: int, **value: object) -> str:
    common = {"id": str(number), "source": HOSTILE, "time_ms": T0 + number * 60_000}
    return json.dumps({"topic": topic, "value": {**common, **value}})


NAMES = {
    "owner": HOSTILE,
    "team": HOSTILE,
    "project": HOSTILE,
    "experiment": HOSTILE,
    "cluster": HOSTILE,
    "region": HOSTILE,
}
LINES = [
    event("prices", 0, sku=HOSTILE, component="gpu", usd="2", per="gpu_hour", effective_ms=0),
    event("controls", 0, kind="silence", name=HOSTILE, match={HOSTILE: HOSTILE}),
    event("jobs", 0, job_id=HOSTILE, type="started", nodes={HOSTILE: 4}, labels={HOSTILE: HOSTILE}, **NAMES),
    event("jobs", 1, job_id="x", type=HOSTILE),
    event("jobs", 2, job_id="x", type="queued", labels={HOSTILE: 5}),
    event(HOSTILE, 3),
    "{" + HOSTILE.replace("\n", "").replace("\r", ""),
    event("jobs", 9, job_id=HOSTILE, type="completed"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store in which everything that a producer may name is hostile."""
    root = tmp_path_factory.mktemp("hostile")
    (root / "log.jsonl").write_text("\n".join(LINES) + "\n")
    env = {"TRAINFARE_LOG_FORMAT": "console"}
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter", "--partitions", "1", env=env)
    assert done.code == 2, done.err  # one control has no effect, by its hostile name
    assert harmless(done.out + done.err)
    assert SHOWN in done.err, "the control that has no effect"
    return root / "meter"


def harmless(text: str) -> bool:
    """Whether nothing but colours and lines of progress steers, and all else shows."""
    plain = _STYLE.sub("", text)
    assert visible(plain, lines=True) == plain
    return True


_TERMINAL = {"COLUMNS": "400", "LINES": "40", "TERM": "xterm-256color"}


def on_a_terminal(*words: str) -> str:
    """What a command writes to a terminal of 400 columns."""
    main, other = pty.openpty()
    env = {**without_settings(), **_TERMINAL}
    terminal = Path(os.ttyname(other))
    process = FORKER.start("streams.cli.main:main", *words, env=env, cwd=ROOT, out=terminal, err=terminal)
    try:
        return b"".join(_read(main, other, process.poll)).decode()
    finally:
        process.kill()
        os.close(main)


def on_a_live_terminal(*words: str, until: str) -> str:
    """What a command that also reads from its terminal writes there until this has shown; then it is ended."""
    main, other = pty.openpty()
    command = [sys.executable, "-c", "from streams.cli.main import main; main()", *words]
    env = {**without_settings(), **_TERMINAL}
    process = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=env, start_new_session=True
    )
    try:
        return b"".join(_read(main, other, process.poll, until)).decode()
    finally:
        process.kill()
        process.wait(60)
        os.close(main)


def _read(main: int, other: int, poll: Callable[[], int | None], until: str | None = None) -> Iterator[bytes]:
    """Our own end of the terminal stays open until the command has ended, so that nothing it wrote is lost."""
    seen, deadline_s, is_open = b"", time.monotonic() + 60, True
    while time.monotonic() < deadline_s and (until is None or until.encode() not in seen):
        if is_open and poll() is not None:
            os.close(other)
            is_open = False
        if not select.select([main], [], [], 0.1)[0]:
            continue
        try:
            piece = os.read(main, 65_536)
        except OSError:  # all is read
            return
        seen += piece
        yield piece
    if is_open:
        os.close(other)


PAGES: list[tuple[str, ...]] = [
    ("jobs",),
    ("job", HOSTILE),
    ("explain", HOSTILE),
    ("sql", "SELECT owner, labels FROM jobs FINAL"),
    ("sql", "SELECT detail, toString(raw) AS raw FROM dead_letters FINAL"),
    ("top", "--once"),
    ("dead-letters", "list"),
    ("dead-letters", "list", "--each"),
    ("dead-letters", "show", "jobs/0/1"),
    ("dead-letters", "show", "jobs/0/2"),
    ("dead-letters", "show", "replay/0/7"),
]


@pytest.mark.parametrize("words", PAGES, ids=lambda words: " ".join(words[:2]).replace(HOSTILE, "ID"))
@pytest.mark.parametrize("form", ["table", "json"])
def test_no_page_of_a_pipe_lets_a_name_through(data: Path, words: tuple[str, ...], form: str) -> None:
    done = trainfare(*words, "--data", data, "--format", form)
    assert (done.code, done.err) == (0, "")
    assert harmless(done.out)
    if form == "table":
        assert r"\x1b]52;c" in done.out or r"\u001b]52;c" in done.out
    else:
        assert json.loads(done.out)
        assert "]52;c" in done.out


@pytest.mark.parametrize(
    "words", [PAGES[0], PAGES[1], PAGES[2], PAGES[3], PAGES[7], PAGES[8]], ids=lambda w: " ".join(w[:1])
)
def test_no_page_of_a_terminal_lets_a_name_through(data: Path, words: tuple[str, ...]) -> None:
    text = on_a_terminal(*words, "--data", str(data)).replace("\r\n", "\n")
    assert harmless(text)
    assert r"\x1b]52;c" in text or r"\u001b]52;c" in text


@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_programs_read_is_harmless_on_a_terminal_too(data: Path, form: str) -> None:
    text = on_a_terminal("jobs", "--data", str(data), "--format", form).replace("\r\n", "\n")
    assert harmless(text)
    if form == "json":
        # Before it a slow machine may be told, on standard error, that the command is at work.
        _, begins, rest = text.partition("[")
        assert json.loads(begins + rest)[0]["job_id"] == HOSTILE


def test_the_live_table_shows_names_escaped(data: Path) -> None:
    text = on_a_live_terminal("top", "--data", str(data), until=r"\x1b]52")
    assert r"\x1b]52" in text
    assert "\x1b]52" not in text
    assert not {"\u202e", "\u2066", "\x9b", "\u200b", "\u2028"} & set(text)


@pytest.mark.parametrize(
    "words",
    [
        ("job", HOSTILE + "x"),
        ("explain", HOSTILE + "x"),
        ("sql", f"SELECT '{HOSTILE}' FROM `{HOSTILE}`"),
        ("dead-letters", "show", HOSTILE),
        ("dead-letters", "list", "--reason", HOSTILE),
        ("dead-letters", "list", "--since", HOSTILE),
        ("jobs", "--limit", HOSTILE),
        (HOSTILE,),
    ],
    ids=lambda words: " ".join(words[:2]).replace(HOSTILE, "X")[:30],
)
def test_no_fault_lets_a_name_through(data: Path, words: tuple[str, ...]) -> None:
    done = trainfare(*words, "--data", data)
    assert done.code in (1, 2)
    assert harmless(done.one_line())


def test_sql_that_does_not_parse_is_shown_escaped_with_a_caret(data: Path) -> None:
    done = trainfare("sql", HOSTILE, "--data", data)
    assert done.code == 1
    said, statement, caret = done.err.splitlines()
    assert said == "trainfare: the SQL has a syntax error at line 1, column 2"
    assert statement.startswith(r"j\x1b]52;c")
    assert caret == " ^"
    assert harmless(done.err)


def test_no_fault_of_a_file_lets_its_content_through(tmp_path: Path) -> None:
    path = tmp_path / f"a{HOSTILE}.jsonl"
    path.write_text(json.dumps({"topic": HOSTILE, "value": {}}) + "\n")
    price = tmp_path / "p.jsonl"
    price.write_text(json.dumps({"sku": "x", "component": HOSTILE}) + "\n")
    for words in (
        ("publish", path),
        ("prices", "load", price),
        ("replay", tmp_path / HOSTILE, "--data", tmp_path / "d"),
    ):
        done = trainfare(*words)
        assert done.code == 2
        assert harmless(done.one_line())


@pytest.mark.parametrize(
    "fault",
    [TrainfareError(HOSTILE), BadParameter(HOSTILE), OSError(2, HOSTILE, HOSTILE), RuntimeError(HOSTILE)],
)
@pytest.mark.parametrize("debug", ["0", "1"])
def test_whatever_is_raised_is_said_harmlessly(
    fault: Exception, debug: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def command() -> None:
        raise fault

    monkeypatch.setenv("TRAINFARE_DEBUG", debug)
    assert guarded(command) in (1, 2)
    assert harmless(capsys.readouterr().err)


def test_the_lines_of_the_demonstration_and_of_top(capsys: pytest.CaptureFixture[str]) -> None:
    about = {"kind": "job", "name": HOSTILE}
    data = {
        "subject": about,
        "status": "firing",
        "severity": HOSTILE,
        "rule": HOSTILE,
        "owner": HOSTILE,
        "summary": HOSTILE,
    }
    job = Job(HOSTILE, owner=HOSTILE, team=HOSTILE, project=HOSTILE, state=HOSTILE, gpu_type=HOSTILE)
    alert = AlertView(
        "a", rule=HOSTILE, severity="page", status="firing", subject=Subject("job", HOSTILE), summary=HOSTILE
    )
    snapshot = MeterView(T0, Burn(), (job,), (alert,), HOSTILE)
    said = [
        demo_lines.delivered(Received("msg_1", "alert.firing", "2026-06-01T00:00:00Z", data)),
        demo_lines.burning(snapshot),
        alert_lines([alert], T0).plain,
    ]
    for line in said:
        assert SHOWN in line
        assert harmless(line)
    write_snapshot(snapshot, OutputFormat.table)
    assert harmless(capsys.readouterr().out)
    columns = details(job, [alert], T0, 80).columns
    assert all(harmless(getattr(cell, "plain", str(cell))) for column in columns for cell in column.cells)
