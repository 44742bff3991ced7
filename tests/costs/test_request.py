"""What may be asked of costs, and that all else is refused in one line that begins with the parameter."""

from decimal import Decimal

import pytest

from streams.costs.request import CostRequest, Metric, Period, request_of
from streams.errors import WrongUseError


def test_what_is_absent_has_its_default() -> None:
    assert request_of({}) == CostRequest()


def test_everything_at_once() -> None:
    given = {
        "metric": ["m10"], "by": ["team, label:tier"], "per": ["day"], "from": ["2026-10-01"], "to": ["2026-10-02T06:00"],
        "where": ["purchase=spot", "owner=a=b"], "compare": ["previous"], "drivers": ["5"], "limit": ["7"],
        "slo_usd_per_hour": ["4.5"], "slo_target": ["0.9"],
    }  # fmt: skip
    assert request_of(given) == CostRequest(
        metric=Metric.m10,
        by=("team", "label:tier"),
        per=Period.day,
        from_ms=1_790_812_800_000,
        to_ms=1_790_920_800_000,
        where=(("purchase", "spot"), ("owner", "a=b")),
        compare=True,
        drivers=5,
        limit=7,
        slo_usd_per_hour=Decimal("4.5"),
        slo_target=Decimal("0.9"),
    )


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("metric", ["m11"]),
        ("metric", ["m1", "m2"]),
        ("by", ["team,team"]),
        ("by", ["cost_usd"]),
        ("by", ["label:"]),
        ("by", ["job,owner,team,project,experiment,cloud,region"]),
        ("by", ["label:" + "x" * 257]),
        ("per", ["minute"]),
        ("from", ["yesterday"]),
        ("from", ["2026-10-01T06:30"]),
        ("from", ["1969-12-31"]),
        ("to", ["9999-12-31"]),
        ("where", ["team"]),
        ("where", ["1=1"]),
        ("where", ["team=" + "x" * 257]),
        ("where", ["team=\udcff"]),
        ("where", ["team=a"] * 21),
        ("compare", ["next"]),
        ("limit", ["0"]),
        ("limit", ["10001"]),
        ("limit", ["٣"]),
        ("slo_usd_per_hour", ["nan"]),
        ("slo_usd_per_hour", ["0.0000000001"]),
        ("limit", ["000000001999"]),
        ("limit", ["0" * 8 + "1" + "9" * 5_000]),
        ("slo_target", ["1"]),
        ("slo_target", ["1e-9999999"]),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(name: str, values: list[str]) -> None:
    with pytest.raises(WrongUseError) as refused:
        request_of({"metric": ["m10"], name: values})
    line = str(refused.value)
    assert line.startswith(f"{name}:")
    assert len(line) < 400
    assert line.isprintable()


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(WrongUseError, match=r"'\\x1bmetrik' is unknown"):
        request_of({"\x1bmetrik": ["m1"]})


@pytest.mark.parametrize(
    "given",
    [
        {"from": ["2026-10-02"], "to": ["2026-10-01"]},
        {"compare": ["previous"]},
        {"compare": ["previous"], "per": ["day"], "drivers": ["3"]},
        {"drivers": ["3"], "from": ["2026-10-01"], "to": ["2026-10-02"]},
        {"metric": ["m1"], "slo_usd_per_hour": ["4"]},
        {"metric": ["m1"], "quality": ["accuracy"]},
        {"metric": ["m1"], "expected": ["1"]},
        {"metric": ["m10"], "expected": ["yes"]},
        {"metric": ["m10"], "progress": ["step"]},
        {"metric": ["m9"], "progress": ["x" * 257]},
        {"metric": ["m3"], "by": ["job"]},
        {"metric": ["m3"], "where": ["owner=ada"]},
        {"metric": ["m3"], "by": ["label:tier"]},
        {"metric": ["m1"], "by": ["node"]},
    ],
)
def test_parts_that_do_not_fit_are_refused(given: dict[str, list[str]]) -> None:
    with pytest.raises(WrongUseError):
        request_of(given)
