"""Controls that recur: weekdays and hours of a time zone, over changes of daylight saving time."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import ControlEvent
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.malformed import MalformedControlError
from streams.engine.alerts.recurrence import WEEKDAYS, Recurrence, recurrence_of
from streams.engine.state.dimensions import AlertDimensions

DAY_MS = 86_400_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def made(**fields: object) -> Recurrence:
    found = recurrence_of(fields)
    assert found is not None
    return found


def spans(first: str, last: str, **fields: object) -> list[tuple[str, str]]:
    """In UTC."""
    return [
        tuple(datetime.fromtimestamp(each / 1000, UTC).strftime("%d %H:%M") for each in span)  # type: ignore[misc]  # a span has two
        for span in made(**fields).spans(ms(first), ms(last))
    ]


def test_hours_of_weekdays_in_a_zone() -> None:
    """2026-06-01 is a Monday; Berlin is 2 h ahead of UTC then."""
    found = spans(
        "2026-06-01", "2026-06-06", weekdays=["mon", "wed"], hours="09:00-17:30", time_zone="Europe/Berlin"
    )
    assert found == [("01 07:00", "01 15:30"), ("03 07:00", "03 15:30")]


def test_hours_over_midnight_belong_to_the_day_on_which_they_begin() -> None:
    assert spans("2026-06-05T12:00", "2026-06-08T12:00", weekdays=["fri"], hours="22:00-06:00") == [
        ("05 22:00", "06 06:00")
    ]


def test_whole_days() -> None:
    found = spans("2026-06-06", "2026-06-08", weekdays=["sat", "sun"], time_zone="America/New_York")
    assert found == [("06 04:00", "07 04:00"), ("07 04:00", "08 04:00")]
    assert spans("2026-06-06T06:00", "2026-06-06T06:00", hours="00:00-24:00") == [("06 00:00", "07 00:00")]


def test_the_day_on_which_the_clocks_go_forward() -> None:
    """In Berlin at 01:00 UTC on 2026-03-29: from 02:00 to 03:00 there is no time."""
    berlin = {"time_zone": "Europe/Berlin"}
    assert spans("2026-03-28T12:00", "2026-03-29T12:00", hours="22:00-06:00", **berlin) == [
        ("28 21:00", "29 04:00")
    ]
    assert spans("2026-03-29", "2026-03-29T12:00", hours="02:00-03:00", **berlin) == []
    assert spans("2026-03-29", "2026-03-29T12:00", hours="02:30-05:00", **berlin) == [
        ("29 01:30", "29 03:00")
    ]
    assert spans("2026-03-29", "2026-03-29T12:00", hours="01:00-02:30", **berlin) == [
        ("29 00:00", "29 01:30")
    ]


def test_the_day_on_which_the_clocks_go_back() -> None:
    """In Berlin at 01:00 UTC on 2026-10-25: 02:00 to 03:00 comes twice, and both are meant."""
    berlin = {"time_zone": "Europe/Berlin"}
    assert spans("2026-10-24T12:00", "2026-10-25T12:00", hours="22:00-06:00", **berlin) == [
        ("24 20:00", "25 05:00")
    ]
    assert spans("2026-10-25", "2026-10-25T12:00", hours="02:00-02:30", **berlin) == [
        ("25 00:00", "25 01:30")
    ]


@given(
    st.sets(st.sampled_from(WEEKDAYS), min_size=1),
    st.integers(0, 1439),
    st.integers(1, 1440),
    st.sampled_from(
        ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu")
    ),
    st.integers(ms("2026-01-01"), ms("2028-01-01")),
)
def test_it_covers_what_the_clock_on_the_wall_says(
    days: set[str], begin: int, end: int, zone: str, at_ms: int
) -> None:
    if begin == end % 1440:
        return
    hours = f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}"
    recurs = made(weekdays=sorted(days), hours=hours, time_zone=zone)
    local = datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone))
    offsets = {
        datetime.fromtimestamp(at_ms / 1000 + hour * 3600, ZoneInfo(zone)).utcoffset()
        for hour in range(-49, 50)
    }
    if len(offsets) > 1:
        return  # near a change of the clocks: the tests above
    minute = local.hour * 60 + local.minute
    today, yesterday = WEEKDAYS[local.weekday()] in days, WEEKDAYS[local.weekday() - 1] in days
    if end > begin:
        expected = today and begin <= minute < end
    else:
        expected = (today and minute >= begin) or (yesterday and minute < end)
    assert recurs.covers(at_ms) is expected


@given(
    st.sampled_from(("Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe")),
    st.integers(0, 1439),
    st.integers(1, 1440),
)
def test_spans_are_in_order_and_one_a_day_in_any_year(zone: str, begin: int, end: int) -> None:
    if begin == end % 1440:
        return
    recurs = Recurrence(tuple(range(7)), begin, end if end > begin else end + 1440, zone)
    found = list(recurs.spans(ms("2026-01-01"), ms("2027-01-01")))
    assert 364 <= len(found) <= 367
    assert all(first[0] < first[1] and first[0] < second[0] for first, second in pairwise(found))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"hours": "25:00-26:00"}, "hours: there is no 25:00, a day is from 00:00 to 24:00"),
        ({"hours": "24:01-25:00"}, "hours: there is no 24:01"),
        ({"hours": "10:60-11:00"}, "hours: there is no 10:60"),
        ({"hours": "9-17"}, 'hours: got "9-17", expected two times of day as "22:00-06:00"'),
        ({"hours": "10:00-10:00"}, "hours: they begin and end at the same time"),
        ({"hours": 9}, "hours: got 9, expected two times of day"),
        (
            {"weekdays": ["monday"]},
            'weekdays: got "monday", expected some of mon, tue, wed, thu, fri, sat, sun; did you mean mon?',
        ),
        ({"weekdays": "mon"}, 'weekdays: got "mon", expected a list'),
        ({"weekdays": []}, "weekdays: got [], expected a list"),
        ({"weekdays": [["mon"]]}, "weekdays: got"),
        ({"hours": "22:00-06:00", "time_zone": "Europe/Berlim"}, "did you mean Europe/Berlin?"),
        ({"hours": "22:00-06:00", "time_zone": "../etc/passwd"}, "time_zone: got"),
        ({"hours": "22:00-06:00", "time_zone": "CEST+2"}, "time_zone: got"),
        ({"hours": "22:00-06:00", "time_zone": 2}, "time_zone: got 2"),
        ({"time_zone": "UTC"}, "time_zone: it is that of `weekdays` or `hours`; set one of them"),
    ],
    ids=str,
)
def test_a_day_an_hour_or_a_zone_that_does_not_exist(fields: dict[str, object], words: str) -> None:
    with pytest.raises(MalformedControlError) as refused:
        recurrence_of(fields)
    assert words in str(refused.value)


JOB = AlertDimensions("j", team="vision")


def test_a_silence_holds_at_its_hours_within_its_interval() -> None:
    nights = {
        "team": "vision",
        "hours": "22:00-06:00",
        "from_ms": ms("2026-06-01T23:00"),
        "until_ms": ms("2026-06-03"),
    }
    controls = Controls.from_events([ControlEvent("t", "1", 0, "silence", "s", nights)])
    assert controls.faults == ()

    def silenced(text: str) -> bool:
        return controls.silenced(JOB, "burn_fast", "page", ms(text))

    instants = (
        "2026-06-01T22:30",
        "2026-06-01T23:30",
        "2026-06-02T05:59",
        "2026-06-02T06:00",
        "2026-06-03T01:00",
    )
    assert [silenced(text) for text in instants] == [False, True, True, False, False]
    ends = controls.silence_ends(ms("2026-06-01"), ms("2026-06-05"))
    assert ends == [ms("2026-06-02T06:00"), ms("2026-06-03")]


def test_a_planned_rate_is_expected_at_its_hours() -> None:
    weekly = {
        "team": "vision", "usd_per_hour": "440", "weekdays": ["mon"], "hours": "08:00-10:00",
        "from_ms": ms("2026-06-01T09:00"), "until_ms": ms("2026-06-16"),
    }  # fmt: skip
    controls = Controls.from_events([ControlEvent("t", "1", 0, "planned", "p", weekly)])
    assert [span[:2] for span in controls.planned_for(JOB)] == [
        (ms("2026-06-01T09:00"), ms("2026-06-01T10:00")),
        (ms("2026-06-08T08:00"), ms("2026-06-08T10:00")),
        (ms("2026-06-15T08:00"), ms("2026-06-15T10:00")),
    ]


def test_a_planned_rate_that_recurs_says_until_when() -> None:
    for until in ({}, {"from_ms": 0, "until_ms": 367 * DAY_MS}):
        record = ControlEvent(
            "t", "1", 0, "planned", "p", {"usd_per_hour": "4", "hours": "08:00-10:00", **until}
        )
        (fault,) = Controls.from_events([record]).faults
        assert fault.detail.startswith(
            "until_ms: a planned rate that recurs ends 366 days after its from_ms at most"
        )


def test_hours_outside_the_interval_are_refused() -> None:
    weekend = {"weekdays": ["sat"], "from_ms": ms("2026-06-01"), "until_ms": ms("2026-06-03")}
    record = ControlEvent("t", "1", 0, "silence", "s", weekend)
    (fault,) = Controls.from_events([record]).faults
    assert fault.detail == "hours: none of sat 00:00-24:00 UTC is between from_ms and until_ms"
