"""docs/stories.md against the logs in examples/stories: their files, the commands, and every alert with its sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadtest.stories import DIRECTORY
from streams.demo.story_logs import STORIES
from tests.cli.command import ROOT, trainfare
from tests.docs.shown_stories import BLOCKS

LARGEST_BYTES = 200_000


def test_the_files_are_those_that_are_made() -> None:
    for name, story in STORIES.items():
        content = (DIRECTORY / f"{name}.jsonl").read_bytes()
        assert content == story().content(), f"{name}: run python -m loadtest.stories"
        assert len(content) < LARGEST_BYTES
    assert {path.stem for path in Path(DIRECTORY).iterdir()} == STORIES.keys()


def test_every_story_is_on_the_page() -> None:
    shown = [command.split()[1] for command, _ in BLOCKS]
    assert shown == [f"examples/stories/{name}.jsonl" for name in STORIES]


@pytest.mark.parametrize(("command", "shown"), BLOCKS, ids=[command.split()[1] for command, _ in BLOCKS])
def test_it_has_exactly_the_alerts_of_the_page(command: str, shown: str) -> None:
    done = trainfare(*command.split(), cwd=ROOT)
    assert (done.code, done.err) == (0, "")
    assert done.out == shown
