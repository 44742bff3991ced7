"""Wrong tokens by address: five are free within a minute, then the wait grows; times are handed in."""

from __future__ import annotations

import logging

import pytest

from streams.config.live import WebSettings
from streams.web.errors import ApiError
from streams.web.scopes import Scope
from streams.web.security import GUESS_DELAY_S, RequestGuard
from streams.web.token_guesses import FREE, TokenGuesses
from tests.logged import events


def waits(guesses: TokenGuesses, address: str, *at_ms: int) -> list[int]:
    return [guesses.wrong(address, at) for at in at_ms]


def test_five_within_a_minute_are_free_and_then_the_wait_grows_to_a_minute() -> None:
    guesses = TokenGuesses()
    assert waits(guesses, "a", *range(5)) == [0] * 5
    assert waits(guesses, "a", *range(5, 14)) == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert guesses.count == 14


def test_another_address_has_its_own() -> None:
    guesses = TokenGuesses()
    waits(guesses, "a", *range(9))
    assert guesses.wrong("b", 9) == 0


def test_a_minute_of_quiet_makes_it_free_again() -> None:
    guesses = TokenGuesses()
    assert waits(guesses, "a", *range(7))[-1] == 2
    assert guesses.wrong("a", 60_001) == 4, "the five before it are within a minute"
    assert waits(guesses, "a", 130_000, 130_001) == [0, 0]
    assert waits(guesses, "a", *range(130_002, 130_007)) == [0, 0, 0, 1, 2]


def test_one_every_quarter_of_a_minute_is_never_slowed() -> None:
    guesses = TokenGuesses()
    assert not any(waits(guesses, "a", *range(0, 1_000_000, 15_000)))


def test_many_addresses_take_bounded_memory() -> None:
    guesses = TokenGuesses(addresses_max=3)
    waits(guesses, "a", *range(6))
    for at, address in enumerate("bcd"):
        guesses.wrong(address, at)
    assert len(guesses) == 3
    assert guesses.wrong("a", 9) == 0, "forgotten, as the one that was quiet longest"


def test_a_line_every_ten_seconds_at_most(caplog: pytest.LogCaptureFixture) -> None:
    guesses = TokenGuesses()
    with caplog.at_level(logging.WARNING):
        waits(guesses, "192.0.2.7", *range(0, 9_999, 100))
        guesses.wrong("192.0.2.8", 10_000)
    assert events(caplog.records) == [
        ("wrong token", {"address": "192.0.2.7", "guesses": 1, "held_back": 0}),
        ("wrong token", {"address": "192.0.2.8", "guesses": 1, "held_back": 99}),
    ]


def test_whoever_guesses_on_waits_for_each_answer() -> None:
    guard = RequestGuard(WebSettings.model_validate({"token": "the-right-token-of-16"}), None, lambda: 0)
    delays_s = []
    for _ in range(FREE + 2):
        with pytest.raises(ApiError) as fault:
            guard.caller(Scope.READ, "10.0.0.1", {"Authorization": "Bearer wrong"}, dict)
        delays_s.append(fault.value.delay_s)
    assert delays_s == [0.0] * FREE + [GUESS_DELAY_S] * 2
