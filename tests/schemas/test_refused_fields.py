from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.reasons import Reason
from tests.schemas.cases_jobs import JOBS
from tests.schemas.cases_reference import OTHERS
from tests.schemas.cases_samples import GPU, TRAFFIC
from tests.schemas.records import FULL, REQUIRED, record, refused


@pytest.mark.parametrize(("topic", "changes", "reason", "detail"), [*JOBS, *GPU, *TRAFFIC, *OTHERS])
def test_refused_for_one_field(topic: str, changes: dict[str, Any], reason: Reason, detail: str) -> None:
    invalid = refused(topic, record(topic, **changes))
    assert invalid.reason is reason
    assert detail in invalid.detail
    assert len(invalid.detail) < 400


@pytest.mark.parametrize(("topic", "field"), [(topic, name) for topic in FULL for name in REQUIRED[topic]])
@pytest.mark.parametrize("absent", [None, ...])
def test_every_required_field_is_missed(topic: str, field: str, absent: object) -> None:
    invalid = refused(topic, record(topic, **{field: absent}))
    assert invalid.reason is Reason.missing_field
    assert invalid.detail.startswith(f"field `{field}`: got nothing, expected ")


def raw(topic: str, field: str, literal: str) -> bytes:
    """The record of a topic with one value as it is literally written in JSON."""
    text = json.dumps(record(topic, **{field: "@@"}), ensure_ascii=False)
    assert text.count('"@@"') == 1
    return text.replace('"@@"', literal).encode()


@pytest.mark.parametrize("topic", sorted(FULL))
@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_is_not_finite_is_named(topic: str, literal: str) -> None:
    field = {"gpu": "util_ratio", "prices": "effective_ms"}.get(topic, "time_ms")
    written = f"[0.5, {literal}]" if topic == "gpu" else literal
    invalid = refused(topic, raw(topic, field, written))
    assert invalid.reason is Reason.not_finite
    path = "util_ratio[1]" if topic == "gpu" else field
    sign = "-" if literal.startswith("-") else ""
    shown = "NaN" if literal == "NaN" else f"{sign}Infinity"
    shown = "***" if topic == "controls" else shown
    assert invalid.detail == f"field `{path}`: got {shown}, expected a finite number of JSON"


def test_a_number_that_is_not_finite_in_depth_is_named() -> None:
    assert refused("jobs", raw("jobs", "progress", '{"step": 1e999}')) is not None
    invalid = refused("jobs", raw("jobs", "quality", '{"loss": NaN}'))
    assert invalid.detail == "field `quality.loss`: got NaN, expected a finite number of JSON"


def test_a_long_value_is_shortened() -> None:
    invalid = refused("jobs", record("jobs", purchase="x" * 100_000))
    shown = invalid.detail.removeprefix("field `purchase`: got ").split(", expected")[0]
    assert shown == '"' + "x" * 78 + "…"


def test_a_value_with_quotes_of_an_error_message_in_it_deceives_nobody() -> None:
    invalid = refused("jobs", record("jobs", purchase="z - at `$.team`"))
    assert invalid.reason is Reason.unknown_value
    assert invalid.detail.startswith("field `purchase`: got ")
