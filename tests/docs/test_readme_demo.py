"""The demonstration's lines in the README are such as it writes: its story, its words, its times.

Must not run the demonstration; tests/cli/test_demo.py does.
"""

import re
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import Any

from streams.cli import demo_lines as lines
from streams.demo.run import DemoOptions
from streams.demo.story import caption, scenes
from streams.notify.webhooks.receiver import Received

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
SHOWN = README[README.index("\nsimulated fleet, ") + 1 :].partition("\n```")[0].splitlines()
HOUR_MS = 3_600_000
FIRING = re.compile(
    r"delivered  (\w+) +(\w+)  job (\S+)  owner (\w+)  \$([\d.,]+)/h \(([\d.]+)x expected \$([\d.,]+)/h over 15 min\)"
)
RESOLVED = re.compile(r"delivered  resolved  (\w+)  job (\S+)  owner (\w+)  after (\d+) min (\d+) s")


def _start_ms() -> int:
    found = re.search(r"from (\S+ \S+) UTC on", SHOWN[0])
    assert found is not None
    return int(datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()) * 1_000


def _message(**data: Any) -> Received:
    return Received("msg_1", "", datetime.fromtimestamp(_start_ms() / 1_000, UTC).isoformat(), data)


def test_the_first_line_says_how_time_goes() -> None:
    assert SHOWN[0] == lines.pace(DemoOptions().speed, _start_ms())


def test_what_somebody_did_is_in_the_story() -> None:
    story = takewhile(lambda scene: scene.at_ms < HOUR_MS, scenes(DemoOptions().seed))
    told = {f"{lines.clock(_start_ms() + scene.at_ms)}  {caption(scene)}" for scene in story}
    shown = [line for line in SHOWN if re.match(r"\d\d:\d\d:\d\d  [a-z]", line)]
    assert shown
    assert [line for line in shown if line not in told] == []


def test_what_was_delivered_is_said_as_the_demonstration_says_it() -> None:
    shown = [line for line in SHOWN if line.startswith("delivered")]
    firing, resolved = FIRING.fullmatch(shown[0]), RESOLVED.fullmatch(shown[1])
    assert firing is not None
    assert resolved is not None
    severity, rule, job, owner, usd, ratio, expected = firing.groups()
    about = {"rule": rule, "subject": {"kind": "job", "name": job}, "owner": owner}
    assert (resolved[1], resolved[2], resolved[3]) == (rule, job, owner)
    figures = {
        "usd_per_hour": usd.replace(",", ""),
        "expected_usd_per_hour": expected.replace(",", ""),
        "ratio": float(ratio),
        "window_ms": 900_000,
    }
    assert lines.delivered(_message(status="firing", severity=severity, **about, **figures)) == shown[0]
    lasted_ms = (int(resolved[4]) * 60 + int(resolved[5])) * 1_000
    over = _message(status="resolved", severity=severity, started_ms=_start_ms() - lasted_ms, **about)
    assert lines.delivered(over) == shown[1]
