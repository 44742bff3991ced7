"""An alert in one line, for somebody who was asleep a minute ago."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.engine.rules.formatting import (
    SENTENCE_AT_MOST,
    gpus,
    one_line,
    sentence,
    short,
    span,
    times,
    unheeded,
    usd,
)
from streams.engine.state.dimensions import AlertDimensions
from tests.engine.alerts.asked import ODD
from tests.engine.alerts.scene import (
    ALL,
    DRIFT,
    FAST,
    HOUR_MS,
    MINUTE_MS,
    SILENT,
    START_MS,
    SUSTAINED,
    UNPRICED,
    USD,
    USUAL,
    At,
    Scene,
)

RAY = AlertDimensions("llama", owner="ann", team="nlp", gpu_type="h100", region="eu-1", gpu_milli=64_000)


def lines(*stretches: tuple[int, At], dimensions: AlertDimensions = RAY) -> list[str]:
    scene = Scene()
    scene.dimensions = {"j": dimensions}
    return [alert.summary for alert in scene.see(*stretches)]


def test_a_page_says_how_much_against_what_since_when_and_whose() -> None:
    (line,) = lines((0, At(m5=6.4, m15=3.2)))
    assert line == (
        "llama burns $128/h over 15 min, 3.2x the $40/h expected: since 03:00 UTC; stop it or declare it, else $704 more by 11:00 UTC;"
        " 64 GPUs, h100, eu-1"
    )


def test_what_is_not_known_is_left_out() -> None:
    (line,) = lines((0, replace(DRIFT, h6=1.6)), dimensions=AlertDimensions("j", gpu_milli=1000))
    assert line == (
        "j burns $2.67/h over 6 h, 1.6x the $1.67/h expected: since 03:00 UTC; stop it or declare it, else $8.00 more by"
        " 11:00 UTC; 1 GPU"
    )


def test_the_end_says_why_how_long_and_how_often() -> None:
    over = lines((0, FAST), (0, USUAL), (MINUTE_MS, FAST), (0, USUAL))[-1]
    assert over == (
        "llama is below 4.8x its expected cost again; it burnt $100/h over 15 min, 2.5x the $40/h expected (6.0x over 5 min), $15"
        " too much; from 03:00 UTC for 1 min 20 s, fired 2 times"
    )
    assert lines((0, FAST), (0, replace(FAST, ended=True)))[-1].startswith("llama has ended; it burnt $100/h")
    assert lines((0, SUSTAINED), (0, ALL))[-1].startswith(
        'llama is covered by "Runaway burn", "Above the ceiling" or "Another purchase or instance" now; it burnt'
    )
    assert lines((0, DRIFT), (0, ALL))[-1].startswith("llama is covered by another alert now; it burnt")


def test_gpu_time_without_a_price_says_what_to_do() -> None:
    fired, over = lines((0, UNPRICED), (0, USUAL), dimensions=AlertDimensions("j", cluster="c1"))
    assert fired == ("j has GPU-time without a price, so that its cost reads too low; publish a price; c1")
    assert over == "j has a price for everything again; from 03:00 UTC for 10 s"


def test_a_job_that_is_not_heard_of_says_what_may_be_lost() -> None:
    fired, over = lines(
        (0, SILENT), (MINUTE_MS, SILENT), (0, USUAL), dimensions=AlertDimensions("j", cluster="c1")
    )
    assert fired == (
        "j is billed as running, but sent no heartbeat or sample for 10 min; its end event may be lost: look at it, and"
        " publish its end if it is over; c1"
    )
    assert over == "j sent a heartbeat or sample again; from 03:00 UTC for 1 min 10 s"


@pytest.mark.parametrize("job_id", ODD)
def test_a_summary_is_one_line_of_printable_text(job_id: str) -> None:
    (line,) = lines((0, FAST), dimensions=AlertDimensions(job_id, owner=job_id, gpu_type=job_id))
    assert line.isprintable()


@pytest.mark.parametrize(
    ("nano", "text"),
    [(0, "$0.00"), (1_234_567_890_000, "$1,234.57"), (995_000_000_000, "$995.00"), (34_200_000, "$0.0342"), (5, "$0.000000005")],
)  # fmt: skip
def test_dollars_are_read_at_a_glance_and_small_ones_are_not_nothing(nano: int, text: str) -> None:
    assert usd(nano) == text


def test_a_sentence_shortens_names_in_the_middle_and_leaves_out_what_does_not_fit() -> None:
    assert short("a" * 24) == "a" * 24
    assert short("train-0123456789-0123456789-end") == "train-012345\u20263456789-end"
    assert sentence(lambda at_most: short("n" * 60, at_most)) == f"{'n' * 20}\u2026{'n' * 19}"
    fits = sentence(lambda at_most: short("n" * 60, at_most) + " " * 151, "x" * 8, "y" * 7, "")
    assert (len(fits), fits[-10:], fits.count("n")) == (200, " ; yyyyyyy", 39)
    fits = sentence(lambda at_most: short("n" * 60, at_most) + " " * 170, "x" * 8, "1", "")
    assert (len(fits), fits[23:25], fits[-3:]) == (197, "n ", "; 1")
    assert len(sentence(lambda _: "x" * 300)) == SENTENCE_AT_MOST


def test_what_goes_on_unheeded_is_counted_to_a_whole_hour_within_eight() -> None:
    half_past_ms = START_MS + HOUR_MS // 2
    assert unheeded(100 * USD, half_past_ms) == "$750 more by 11:00 UTC"
    assert unheeded(USD, START_MS + 20 * HOUR_MS) == "$8.00 more by 2026-03-02 07:00 UTC"


def test_words() -> None:
    assert [times(ratio) for ratio in (1.5, 2.449, 99.94, 100, 12345.6)] == [
        "1.5x",
        "2.4x",
        "99.9x",
        "100x",
        "12,346x",
    ]
    assert [span(ms) for ms in (0, 40_000, 900_000, 5_430_000, 90_061_000)] == [
        "0 s",
        "40 s",
        "15 min",
        "1 h 30 min",
        "1 d 1 h",
    ]
    assert [gpus(milli) for milli in (500, 1000, 2500, 4_096_000)] == [
        "0.5 GPUs",
        "1 GPU",
        "2.5 GPUs",
        "4,096 GPUs",
    ]
    assert one_line("a\nb\x1b") == "a\\nb\\x1b"
