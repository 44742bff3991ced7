"""The demonstration's lines in the README are such as it writes: its story, its words, its times."""

import re
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

from streams.cli import demo_lines as lines
from streams.demo.run import DemoOptions
from streams.demo.stories import Stories
from streams.demo.story import captions

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
SHOWN = README[README.index("\nsimulated fleet, ") + 1 :].partition("\n```")[0].splitlines()
HOUR_MS = 3_600_000


def _start_ms() -> int:
    found = re.search(r"from (\S+ \S+) UTC on", SHOWN[0])
    assert found is not None
    return int(datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp()) * 1_000


def test_the_first_line_says_how_time_goes() -> None:
    assert SHOWN[0] == lines.pace(DemoOptions().speed, _start_ms())


def test_what_somebody_did_is_in_the_story() -> None:
    both = (captions(DemoOptions().seed), Stories(_start_ms()).captions())  # without end
    story = [each for some in both for each in takewhile(lambda each: each[0] < HOUR_MS, some)]
    told = {f"{lines.clock(_start_ms() + at_ms)}  {said}" for at_ms, said in story}
    shown = [line for line in SHOWN if re.match(r"\d\d:\d\d:\d\d  [a-z]\S* (?! )", line)]
    assert shown
    assert [line for line in shown if line not in told] == []
