"""What a job held, kept up attempt by attempt, says the same of its start as reading all attempts anew."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine.windows.requested_start import Held, RequestedStart
from tests.property.profile import PROFILE

SPANS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3)).map(
        lambda drawn: (min(drawn[:2]), max(drawn[:2]), 1000 * drawn[2])
    ),
    max_size=3,
)
TURNS = st.lists(st.lists(st.tuples(st.integers(1, 4), SPANS), max_size=3), min_size=1, max_size=6)
REQUESTED = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 6)), max_size=4).map(
    lambda requested: sorted(requested, key=lambda each: each[0])
)


def said(start: RequestedStart) -> list[bool | None]:
    return [start.is_growth(at_ms) for at_ms in range(-1, 12)]


def expected(at_ms: int, requested: list[tuple[int, int]], spans: list[Held]) -> bool | None:
    """By what is held at each instant, counted one by one."""
    asked = [gpus for time_ms, gpus in sorted(requested, key=lambda each: each[0]) if time_ms <= at_ms]
    if not asked:
        return None

    def held(then_ms: int) -> int:
        return sum(milli for start_ms, end_ms, milli in spans if start_ms <= then_ms < end_ms)

    before = max((held(then_ms) for then_ms in range(-2, at_ms)), default=0)
    changes = any(at_ms in span[:2] and span[0] < span[1] and span[2] for span in spans)
    before = before if changes else max(before, held(at_ms))
    if before >= 1000 * asked[-1] or held(at_ms) > 1000 * asked[-1]:
        return False
    return True if held(at_ms) > before else None


@settings(PROFILE)
@given(TURNS, REQUESTED, REQUESTED)
def test_attempt_by_attempt_says_what_all_at_once_say(
    turns: list[list[tuple[int, list[Held]]]],
    first: list[tuple[int, int]],
    requested: list[tuple[int, int]],
) -> None:
    kept, now = RequestedStart(), dict[int, list[Held]]()
    kept.request(first)
    for turn in turns:
        kept.hold(turn)
        now.update(turn)
    kept.request(requested)
    anew = RequestedStart()
    anew.request(requested)
    anew.hold(now.items())
    spans = [span for of_attempt in now.values() for span in of_attempt]
    assert said(kept) == said(anew)
    assert said(kept) == [expected(at_ms, requested, spans) for at_ms in range(-1, 12)]


def test_nothing_is_kept_of_the_far_end_of_attempts_that_were_open() -> None:
    far_ms, kept = 10**9, RequestedStart()
    for attempt in range(100):
        kept.hold([(attempt, [(attempt * 10, far_ms + attempt, 1000)])])
        kept.hold([(attempt, [(attempt * 10, attempt * 10 + 5, 1000)])])
    assert len(kept._times_ms) == 200  # a beginning and an end of each
