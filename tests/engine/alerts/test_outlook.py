"""What a sentence says of what is to come, shown later: as of then, or not at all; whatever names are in it."""

from __future__ import annotations

import pytest

from streams.engine.alerts.outlook import CURRENT_MS, AlertSentence, used_up
from streams.engine.rules.formatting import SENTENCE_AT_MOST, unheeded
from tests.engine.alerts.scene import HOUR_MS, MINUTE_MS, START_MS, USD

MORE = unheeded(2 * USD, START_MS)
IDLE = f"j leaves 8 GPUs idle; stop it or give GPUs back, else {MORE}, fired 2 times; 8 GPUs, h100, eu-1"


def test_it_stays_as_it_is_while_it_is_current() -> None:
    told = AlertSentence("idle_gpus", IDLE, START_MS)
    assert told.at(START_MS + CURRENT_MS) == told.at(START_MS - 1) == IDLE
    assert told.at(START_MS + CURRENT_MS + 1) == told.past() == IDLE.replace(f", else {MORE}", "")


def test_what_goes_on_is_counted_from_now() -> None:
    told = AlertSentence("idle_gpus", IDLE, START_MS)
    assert MORE == "$16 more by 11:00 UTC"
    later_ms = START_MS + HOUR_MS + 30 * MINUTE_MS
    assert told.at(later_ms, 4 * USD) == IDLE.replace(MORE, "$30 more by 12:00 UTC")
    assert told.at(START_MS + 10 * HOUR_MS, 4 * USD) == IDLE.replace(MORE, "$32 more by 21:00 UTC")
    assert told.at(later_ms, 0) == told.at(later_ms, -USD) == told.past()
    # Log time may be behind the instant of the figures, as they come from another shard.
    assert told.at(START_MS - HOUR_MS, 2 * USD) == IDLE


@pytest.mark.parametrize("name", ["eu-1, else $5 more by 10:00 UTC", ", $5 more by 10:00 UTC", "x, else y"])
def test_names_are_no_outlook(name: str) -> None:
    """A name before it may be as long as one of jobs; those after it have 24 characters at most."""
    text = f"{name} leaves GPUs idle; stop it, else {MORE}; {name[:24]}"
    told = AlertSentence("idle_gpus", text, START_MS)
    assert told.past() == f"{name} leaves GPUs idle; stop it; {name[:24]}"
    assert told.at(START_MS, USD) == text.replace(MORE, "$8.00 more by 11:00 UTC")


def test_one_that_was_cut_off_in_its_middle() -> None:
    for end in range(len("x; stop it, else "), len(f"x; stop it, else {MORE}")):
        text = f"x; stop it, else {MORE}"[:end] + "\u2026"
        assert AlertSentence("idle_gpus", text, START_MS).at(START_MS + HOUR_MS, USD) == "x; stop it"
    assert AlertSentence("idle_gpus", "x, else y; stop i\u2026", START_MS).past() == "x, else y; stop i\u2026"


def test_it_gets_no_longer_than_a_sentence_may_be() -> None:
    text = f"{'x' * (SENTENCE_AT_MOST - 40)}; stop it, else {MORE}"
    told = AlertSentence("idle_gpus", text, START_MS)
    tomorrow_ms = START_MS + 20 * HOUR_MS
    assert unheeded(USD, tomorrow_ms) == "$8.00 more by 2026-03-02 07:00 UTC"
    assert told.at(tomorrow_ms, USD) == told.past()


def test_when_a_budget_is_used_up_is_a_matter_of_its_instant() -> None:
    end = used_up(HOUR_MS, START_MS)
    used = f"team x{end} has used 80.0 % of budget b: $80 of $100, $20/h{end}; stop or shrink y{end} ($1.00/h), or raise it"
    told = AlertSentence("budget_used", used, START_MS, 20 * USD, HOUR_MS)
    assert told.past() == used.replace(f"$20/h{end}", "$20/h")
    soon = "team x will use up budget b for 2026-03 at 04:00 UTC, 20 h early: $80 of $100, $20/h; raise it"
    assert AlertSentence("budget_forecast", soon, START_MS, 20 * USD, HOUR_MS).past() == soon.replace(
        "will use", "was to use"
    )
