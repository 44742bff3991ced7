"""Controls: who is told, what is silenced, what is planned, and what becomes of nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.engine.alerts.alert import Address
from streams.engine.alerts.controls import NO_CONTROLS, Controls
from streams.engine.alerts.planned import FOR_EVER_MS
from streams.engine.state.dimensions import MATCHED, AlertDimensions

JOB = AlertDimensions(
    "j",
    owner="ann",
    team="nlp",
    project="p",
    experiment="e",
    cluster="c",
    region="r",
    zone="z",
    cloud="aws",
    account="a",
    instance_type="i",
    gpu_type="h100",
    purchase="spot",
    gpu_milli=8000,
)


def control(kind: str, name: str, **value: Any) -> ControlEvent:
    return ControlEvent(source="s", id="1", time_ms=1, kind=kind, name=name, value=value)


def silence(name: str, **value: Any) -> ControlEvent:
    return control("silence", name, **value)


def planned(name: str, usd_per_hour: Any = "1", **value: Any) -> ControlEvent:
    return control("planned", name, usd_per_hour=usd_per_hour, **value)


def test_an_acknowledgement_with_a_rate_is_as_a_plan_until_it_ends() -> None:
    acked = {"alert_id": "al_x", "until_ms": 90}
    plain = Controls.from_events([control("ack", "al_x", **acked)])
    assert (plain.planned, plain.faults, plain.acknowledged_for("nlp", 50)) == ((), (), 0)
    of_job = Controls.from_events(
        [planned("a", "1"), control("ack", "al_x", **acked, job_id="j", usd_per_hour="637.5")]
    )
    assert of_job.planned_for(JOB) == ((0, 1, 10**9), (1, 90, 637_500_000_000), (90, FOR_EVER_MS, 10**9))
    of_team = Controls.from_events([control("ack", "al_y", **acked, team="nlp", usd_per_hour=300)])
    rates = [of_team.acknowledged_for("nlp", at_ms) for at_ms in (0, 1, 89, 90)]
    assert (rates, of_team.acknowledged_for("cv", 50)) == ([0, 300 * 10**9, 300 * 10**9, 0], 0)
    assert of_team.planned_for(JOB) == ()


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"usd_per_hour": "5"}, "usd_per_hour: expected the rate of one job"),
        ({"usd_per_hour": "5", "job_id": "j", "team": "t"}, "usd_per_hour: expected the rate of one job"),
        ({"usd_per_hour": "5", "job_id": ""}, "job_id: expected the rate of one job"),
        ({"job_id": "j"}, "usd_per_hour: got null"),
        ({"usd_per_hour": "much", "job_id": "j"}, "usd_per_hour: got"),
    ],
)
def test_an_acknowledgement_of_half_a_rate_has_no_effect(value: dict[str, Any], reason: str) -> None:
    found = Controls.from_events([control("ack", "al_x", alert_id="al_x", **value)])
    (fault,) = found.faults
    assert fault.detail.startswith(reason), fault
    assert found.planned == ()


def silenced(*events: ControlEvent, at_ms: int = 50, job: AlertDimensions = JOB) -> bool:
    return Controls.from_events(events).silenced(job, "burn_fast", "page", at_ms)


def test_an_owner_has_the_addresses_that_are_given() -> None:
    controls = Controls.from_events(
        [
            control("owner", "ann", slack="https://s", webhook=" https://w ", email=None),
            control("owner", "bob"),
        ]
    )
    assert controls.address_of("ann") == (Address("webhook", "https://w"), Address("slack", "https://s"))
    assert controls.address_of("bob") == controls.address_of("nobody") == ()
    assert controls.faults == ()


def test_a_bad_address_is_reported_without_being_shown_and_the_others_stand() -> None:
    controls = Controls.from_events(
        [control("owner", "ann", webhook=["https://secret"], slack=" ", email="a@b")]
    )
    assert controls.address_of("ann") == (Address("email", "a@b"),)
    assert [(fault.kind, fault.name) for fault in controls.faults] == [("owner", "ann")] * 2
    assert "secret" not in str(controls.faults)


@pytest.mark.parametrize("field", ["rule", "severity", "job", *MATCHED])
def test_a_silence_asks_for_each_field(field: str) -> None:
    mine = {**JOB._asdict(), "rule": "burn_fast", "severity": "page", "job": "j"}[field]
    assert silenced(silence("s", **{field: mine}))
    assert silenced(silence("s", match={field: mine}))
    assert not silenced(silence("s", **{field: "other"}))
    assert not silenced(silence("s", match={field: "other"}))


def test_all_fields_must_fit_and_no_field_fits_all() -> None:
    assert silenced(silence("s", team="nlp", match={"owner": "ann"}))
    assert not silenced(silence("s", team="nlp", owner="bob"))
    assert silenced(silence("s"))
    assert silenced(silence("s", team=None, comment="the big run", match=None))
    assert silenced(silence("s", team="cv"), silence("t", team="nlp"))


def test_an_empty_value_asks_for_a_job_that_names_none() -> None:
    assert not silenced(silence("s", team=""))
    assert silenced(silence("s", team=""), job=AlertDimensions("j"))


def test_a_silence_begins_with_its_first_instant_and_ends_before_its_last() -> None:
    event = silence("s", from_ms=10, until_ms=20)
    assert [silenced(event, at_ms=at_ms) for at_ms in (9, 10, 19, 20)] == [False, True, True, False]
    assert silenced(silence("s", until_ms=20), at_ms=0)
    assert silenced(silence("s", from_ms=10), at_ms=10**15)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"tema": "nlp"}, "tema"),
        ({"match": {"tema": "nlp"}}, "tema"),
        ({"match": "team=nlp"}, "match"),
        ({"team": ["nlp"]}, "team"),
        ({"team": 5}, "team"),
        ({"team": "nlp", "match": {"team": "cv"}}, "both"),
        ({"job": "j", "job_id": "k"}, "both"),
        ({"gpu_milli": "8000"}, "gpu_milli"),
        ({"from_ms": "10"}, "from_ms"),
        ({"until_ms": True}, "until_ms"),
        ({"until_ms": 2**63}, "until_ms"),
        ({"from_ms": 20, "until_ms": 20}, "until_ms"),
    ],
)
def test_a_silence_that_is_not_understood_silences_nothing_and_is_reported(
    value: dict[str, Any], says: str
) -> None:
    controls = Controls.from_events([silence("bad", **value), silence("good", team="cv")])
    assert not controls.silenced(JOB, "burn_fast", "page", 50)
    assert controls.silenced(JOB._replace(team="cv"), "burn_fast", "page", 50)
    ((kind, name, detail),) = controls.faults
    assert (kind, name) == ("silence", "bad")
    assert says in detail


def test_of_one_name_the_last_record_stands() -> None:
    assert not silenced(silence("s", team="nlp"), silence("s", team="cv"))
    assert silenced(silence("s", team="cv"), silence("s", team="nlp"), planned("s"))


#: A silence of a rule or severity that does not exist has no effect.
_REAL = {"rule": {"a": "burn_fast", "b": "traffic"}, "severity": {"a": "page", "b": "ticket"}}


@given(
    st.lists(
        st.tuples(
            st.dictionaries(
                st.sampled_from(["team", "owner", "rule", "severity"]),
                st.sampled_from(["a", "b"]),
                max_size=3,
            ),
            st.integers(0, 8),
            st.integers(1, 4),
        ),
        max_size=12,
    ),
    st.tuples(*[st.sampled_from("ab")] * 4),
    st.integers(0, 12),
)
def test_a_silence_covers_what_a_look_at_each_of_them_finds(
    given_silences: list[tuple[dict[str, str], int, int]], facts: tuple[str, ...], at_ms: int
) -> None:
    team, owner = facts[:2]
    rule, severity = _REAL["rule"][facts[2]], _REAL["severity"][facts[3]]
    given_silences = [
        ({field: _REAL.get(field, {}).get(value, value) for field, value in match.items()}, from_ms, long_ms)
        for match, from_ms, long_ms in given_silences
    ]
    is_so = {"team": team, "owner": owner, "rule": rule, "severity": severity}
    controls = Controls.from_events(
        silence(str(number), match=match, from_ms=from_ms, until_ms=from_ms + long_ms)
        for number, (match, from_ms, long_ms) in enumerate(given_silences)
    )
    found = controls.silenced(AlertDimensions("j", team=team, owner=owner), rule, severity, at_ms)
    assert found == any(
        match.items() <= is_so.items() and from_ms <= at_ms < from_ms + long_ms
        for match, from_ms, long_ms in given_silences
    )


def test_an_alert_looks_at_no_silence_of_another() -> None:
    class Counting(str):
        __slots__ = ()
        compared = 0

        def __eq__(self, other: object) -> bool:
            Counting.compared += 1
            return str.__eq__(self, other)

        def __ne__(self, other: object) -> bool:
            return not self == other

        __hash__ = str.__hash__

    many = [silence(f"s{n}", owner=Counting(f"owner-{n}"), rule="burn_fast") for n in range(2_000)]
    nightly = [
        silence(f"n{n}", team="nlp", from_ms=100 * n + 60, until_ms=100 * n + 70) for n in range(2_000)
    ]
    controls = Controls.from_events([*many, *nightly])
    Counting.compared = 0
    asked = [controls.silenced(JOB, "burn_fast", "page", at_ms) for at_ms in (50, 65, 199_965, 199_975)]
    assert asked == [False, True, True, False]
    assert Counting.compared <= len(asked)  # by owner and rule it is one probe, whatever stands


def test_planned_rates_are_spans_and_the_smallest_name_wins() -> None:
    controls = Controls.from_events(
        [
            planned("b", 7, from_ms=10, until_ms=40),
            planned("a", "2.5", from_ms=20, until_ms=30),
            planned("c", 1.5, until_ms=50),
            planned("0", 99, team="cv"),
            planned("d", 1.5, from_ms=50),
        ]
    )
    usd = 10**9
    assert controls.planned_for(JOB) == (
        (0, 10, 1_500_000_000),
        (10, 20, 7 * usd),
        (20, 30, 2_500_000_000),
        (30, 40, 7 * usd),
        (40, FOR_EVER_MS, 1_500_000_000),
    )
    assert controls.planned_for(JOB._replace(team="cv")) == ((0, FOR_EVER_MS, 99 * usd),)


@given(
    st.permutations([("a", 10, 30, 1), ("b", 20, 40, 2), ("c", 0, 50, 3), ("d", 45, 60, 4)]),
    st.integers(0, 70),
)
def test_the_rate_at_any_instant_is_that_of_the_smallest_name(
    each: list[tuple[str, int, int, int]], at: int
) -> None:
    controls = Controls.from_events([planned(n, usd, from_ms=f, until_ms=u) for n, f, u, usd in each])
    found = [nano // 10**9 for begin, end, nano in controls.planned_for(JOB) if begin <= at < end]
    assert found == [usd for n, f, u, usd in sorted(each) if f <= at < u][:1]


@pytest.mark.parametrize(
    "usd", [None, True, [], "x", "-1", -1, 1e300, 10**10, 10**400, float("nan"), float("inf")]
)
def test_a_planned_rate_that_is_none_is_reported(usd: Any) -> None:
    controls = Controls.from_events([planned("bad", usd)])
    assert controls.planned_for(JOB) == ()
    ((kind, name, detail),) = controls.faults
    assert (kind, name) == ("planned", "bad")
    assert "usd_per_hour" in detail


def test_a_planned_rate_asks_for_jobs_not_for_alerts() -> None:
    controls = Controls.from_events([planned("bad", 1, rule="burn_fast")])
    assert controls.planned_for(JOB) == ()
    assert len(controls.faults) == 1


def test_a_number_is_rounded_half_to_even_as_everywhere() -> None:
    controls = Controls.from_events([planned("a", 0.0000000005), planned("b", 1, team="cv")])
    assert controls.planned_for(JOB) == ((0, FOR_EVER_MS, 0),)


def test_a_deletion_means_nothing() -> None:
    assert Controls.from_events([control("", "")]).faults == NO_CONTROLS.faults
    assert NO_CONTROLS.planned_for(JOB) == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = st.sampled_from(
    [
        "match",
        "from_ms",
        "until_ms",
        "usd_per_hour",
        "webhook",
        "team",
        "job",
        "x",
        "usd",
        "gpu_hours",
        "per",
        "period",
        "action",
        "actions",
        "grace_s",
        "subject",
        "reason",
        "budget",
    ]
)


@given(
    st.sampled_from(["owner", "silence", "budget", "override", "planned", "budget", "receipt", "?"]),
    st.dictionaries(names, json_values),
)
def test_nothing_raises(kind: str, value: dict[str, Any]) -> None:
    controls = Controls.from_events([control(kind, "n", **value)])
    controls.planned_for(JOB)
    controls.silenced(JOB, "burn_fast", "page", 1)
    controls.address_of("n")


def test_a_record_of_the_log_is_understood() -> None:
    raw = (
        b'{"id":"1","source":"s","time_ms":1772334000000,"kind":"planned","name":"sweep",'
        b'"match":{"team":"nlp"},"until_ms":1772337600000,"usd_per_hour":"412.5","comment":"ablation"}'
    )
    event = decode("controls", raw, (), 2**62)
    assert isinstance(event, ControlEvent)
    controls = Controls.from_events([event])
    assert controls.planned_for(JOB) == ((0, 1_772_337_600_000, 412_500_000_000),)
    assert controls.faults == ()
