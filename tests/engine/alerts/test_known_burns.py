"""A burn that goes on in the next attempt of a job is no second ticket: spot jobs have hundreds of attempts."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from streams.engine.alerts.alert import is_change
from streams.engine.alerts.episodes import Memory
from streams.engine.alerts.judge import Judge
from tests.engine.alerts.scene import DRIFT, FAST, HOUR_MS, MINUTE_MS, SUSTAINED, USUAL, At, Scene

DEAR = replace(DRIFT, above_usd_per_hour=10.0)
AWAY = At(expected_usd=0.0, ended=True, paid_now=False)  # interrupted, and no next attempt for 10 min


def tickets(scene: Scene, *stretches: tuple[int, At]) -> list[str]:
    """The severity of each alert that opens or becomes more urgent."""
    return [each.severity for each in scene.see(*stretches) if is_change(each) and each.status == "firing"]


def interrupted(hours: int, at: At = DEAR) -> tuple[tuple[int, At], ...]:
    return (HOUR_MS, at), (hours * HOUR_MS, AWAY)


def test_the_same_burn_of_the_next_attempts_is_for_the_digest() -> None:
    scene = Scene()
    assert tickets(scene, *interrupted(3) * 5) == ["ticket", *["digest"] * 4]


def test_a_day_later_it_is_a_ticket_again() -> None:
    assert tickets(Scene(), *interrupted(25) * 3) == ["ticket"] * 3
    assert tickets(Scene(), *interrupted(23) * 3) == ["ticket", "digest", "digest"]


def test_one_that_is_half_as_dear_again_is_a_ticket_and_becomes_one_while_it_fires() -> None:
    dearer = replace(DEAR, above_usd_per_hour=15.0)
    assert tickets(Scene(), *interrupted(3), (HOUR_MS, dearer)) == ["ticket", "ticket"]
    nearly = replace(DEAR, above_usd_per_hour=14.9)
    assert tickets(Scene(), *interrupted(3), (HOUR_MS, nearly)) == ["ticket", "digest"]
    assert tickets(Scene(), *interrupted(3), (HOUR_MS, nearly), (HOUR_MS, dearer)) == [
        "ticket",
        "digest",
        "ticket",
    ]


def test_a_page_stays_a_page() -> None:
    page = replace(DEAR, above_usd_per_hour=100.0)
    assert tickets(Scene(), *interrupted(3, page) * 2) == ["page", "page"]


def test_what_was_over_in_between_is_told_of_again() -> None:
    fixed = (2 * HOUR_MS, USUAL)
    assert tickets(Scene(), *interrupted(3), (HOUR_MS, DEAR), fixed, (HOUR_MS, DEAR)) == [
        "ticket",
        "digest",
        "ticket",
    ]


@pytest.mark.parametrize("other", [FAST, SUSTAINED])
def test_it_is_known_whichever_rule_sees_it_next(other: At) -> None:
    other = replace(other, above_usd_per_hour=10.0)
    assert tickets(Scene(), *interrupted(3), (30 * MINUTE_MS, other)) == ["ticket", "digest"]


def test_a_restored_judge_knows_it_as_well() -> None:
    """Beyond the three hours for which other alerts are remembered."""
    scene = Scene()
    scene.see(*interrupted(8))
    dumped = msgspec.msgpack.encode(scene.judge.dump())
    scene.judge = Judge.load(msgspec.msgpack.decode(dumped, type=Memory))
    assert tickets(scene, (HOUR_MS, DEAR)) == ["digest"]
