"""Whatever a collector saw, was killed at or forgot, and since when it counts: the costs are those of sacct in the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.collect.collector import Position
from streams.collect.slurm.collector import SlurmCollector
from streams.collect.slurm.options import Options
from tests.collect.slurm import fake
from tests.collect.slurm.test_recorded import PRICE, cost_nano, of_sacct
from tests.collect.slurm.world import VERSIONS, recorded
from tests.collect.world import Log
from tests.harness import meter
from tests.oracle.model import Line, Tables


@cache
def squeue(version: str, at: int) -> bytes:
    return json.dumps(recorded(version)[at]["squeue"]).encode()


def asker(version: str, at: int) -> Callable[[Sequence[str]], bytes]:
    def ask(command: Sequence[str]) -> bytes:
        if command[0] == "squeue":
            return squeue(version, at)
        jobs = recorded(version)[at]["sacct"]["jobs"]
        return json.dumps({"jobs": [job for job in jobs if fake.is_asked_for(job, [*command])]}).encode()

    return ask


class Poll(NamedTuple):
    """A poll at a look, from the position so many before the newest; killed after it published so many batches."""

    at: int
    back: int = 1
    killed_after: int | None = None


class History(NamedTuple):
    """What two collectors did, one after the other: each polls once more at the end."""

    since: int  # a second after the first look; -3600: long before
    polls: tuple[tuple[Poll, ...], tuple[Poll, ...]] = ((), ())


LOOKS: Final = {version: [int(look["time"]) for look in recorded(version)] for version in VERSIONS}


def histories(version: str) -> st.SearchStrategy[History]:
    """Any polls before the last; each may be killed before it stored a position, or have an old one."""
    times = LOOKS[version]
    poll = st.builds(
        Poll,
        st.integers(0, len(times) - 2),
        st.integers(1, 3),
        st.none() | st.integers(1, 3),
    )
    polls = st.lists(poll, max_size=8, unique_by=lambda each: each.at).map(
        lambda found: tuple(sorted(found, key=lambda each: each.at))
    )
    since = st.just(-3600) | st.integers(0, times[-1] - times[0] - 1)
    return st.builds(History, since, st.tuples(polls, polls))


def published(version: str, history: History) -> Log:
    """All events of the two."""
    log, last, times = Log(), len(LOOKS[version]) - 1, LOOKS[version]
    since = datetime.fromtimestamp(times[0] + history.since, UTC)
    options = Options(gpu_types={"h100": "H100"}, since=since)
    for polls in history.polls:
        positions: list[Position | None] = [None]
        for at, back, killed_after in (*polls, Poll(last)):
            collector = SlurmCollector(options, asker(version, at))
            batches = collector.poll(positions[-min(back, len(positions))], times[at] * 1000)
            for number, batch in enumerate(batches, 1):
                log.publish(batch.events)
                if number == killed_after:
                    break
                positions.append(batch.position)
    return log


def assert_costs_of_sacct(version: str, history: History) -> None:
    tables = tables_of(published(version, history), recorded(version))
    assert cost_nano(tables) == of_sacct(version, LOOKS[version][0] + history.since)
    assert not tables.dead


@settings(max_examples=40)
@given(histories("22.05"))
def test_costs_do_not_depend_on_what_was_seen_of_22_05(history: History) -> None:
    """Two collectors, each polls when it likes; a poll may be cut short, or its position lost. Counted since any time."""
    assert_costs_of_sacct("22.05", history)


@settings(max_examples=40)
@given(histories("24.11"))
# Seen to run in the second of `since`, in which it ended, by a poll that was killed before it stored its position.
@example(History(73, ((Poll(30, killed_after=1),), ())))
@example(History(73, ((), (Poll(29), Poll(30, killed_after=1), Poll(32)))))
@example(History(8, ((Poll(5, killed_after=1),), ())))  # an attempt that was requeued
def test_costs_do_not_depend_on_what_was_seen_of_24_11(history: History) -> None:
    """As above; this version says how often a job was restarted."""
    assert_costs_of_sacct("24.11", history)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("killed_after", [1, 2])
def test_who_was_killed_in_the_second_of_since_is_followed_by_its_successor(
    version: str, killed_after: int
) -> None:
    times = LOOKS[version]
    for at in range(len(times) - 1):
        assert_costs_of_sacct(
            version, History(times[at] - times[0], ((Poll(at, killed_after=killed_after),), ()))
        )


@pytest.mark.parametrize("version", ["22.05", "24.11"])
def test_costs_since_the_second_of_a_poll_do_not_depend_on_it(version: str) -> None:
    """In that second a job may have changed its size, or ended, after the poll had seen it."""
    looks = recorded(version)
    for at, look in enumerate(looks[:-1]):
        since_s, log = int(look["time"]), Log()
        options = Options(gpu_types={"h100": "H100"}, since=datetime.fromtimestamp(since_s, UTC))
        for polls in ((at, len(looks) - 1), (len(looks) - 1,)):
            position: Position | None = None
            for each in polls:
                collector = SlurmCollector(options, asker(version, each))
                for batch in collector.poll(position, int(looks[each]["time"]) * 1000):
                    log.publish(batch.events)
                    position = batch.position
        assert cost_nano(tables_of(log, looks)) == of_sacct(version, since_s), at


def tables_of(log: Log, looks: Sequence[dict[str, Any]]) -> Tables:
    """What the meter makes of events, at the last look."""
    lines = [PRICE, *(Line(topic, dict(value)) for topic, value in log.events)]
    return meter(lines, as_of_ms=int(looks[-1]["time"]) * 1000)
