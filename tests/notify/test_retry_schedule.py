"""When a message is tried again."""

from __future__ import annotations

import pytest

from streams.notify.retry_schedule import SCHEDULE_MS, delay_ms, retry_after_ms

NOW_MS = 1_445_412_480_000  # Wed, 21 Oct 2015 07:28:00 GMT
HOUR_MS = 3_600_000


def test_the_longest_waits_grow_from_nothing_to_half_an_hour() -> None:
    longest = [delay_ms(made, 1.0) for made in range(10)]
    assert longest == [0, 1_000, 5_000, 30_000, 120_000, 300_000, 900_000, 1_800_000, 1_800_000, 1_800_000]
    assert longest[:8] == list(SCHEDULE_MS)


def test_jitter_takes_any_share_of_the_wait() -> None:
    assert [delay_ms(3, ratio) for ratio in (0.0, 0.25, 0.5, 1.0)] == [0, 7_500, 15_000, 30_000]


def test_what_is_asked_for_is_waited_at_least() -> None:
    assert delay_ms(1, 0.5, 60_000) == 60_000
    assert delay_ms(4, 1.0, 60_000) == 120_000


@pytest.mark.parametrize(
    ("header", "wait_ms"),
    [
        ("0", 0),
        ("120", 120_000),
        (" 5 ", 5_000),
        ("86400", HOUR_MS),
        ("9" * 5_000, HOUR_MS),
        ("Wed, 21 Oct 2015 07:28:30 GMT", 30_000),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0),
        ("Wed, 21 Oct 2026 07:28:00 GMT", HOUR_MS),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("\u0661\u0662", None),
        ("soon", None),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_retry_after(header: str, wait_ms: int | None) -> None:
    assert retry_after_ms(header, NOW_MS) == wait_ms
