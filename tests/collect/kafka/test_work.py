"""A record cannot take more work or memory than it may, whatever the expression is."""

from __future__ import annotations

import json

import pytest

from streams.collect.kafka.expressions import EXPRESSION_CHARS, Evaluation, TooMuchWorkError, compiled
from streams.collect.kafka.mapping import RecordMap
from streams.collect.kafka.options import MapRule, Options

WIDE = {"a": [{"b": list(range(300))} for _ in range(300)]}


@pytest.mark.parametrize(
    "text",
    [
        "a[*].b[*].c",  # visits each of 90,000 numbers
        "map(&a, a[*].b[])",
        "@" + "|[@,@]" * 40 + "|to_string(@)",  # 2^40 references to one record
        "@" + "|[@,@]" * 40,
        "@" + "|[@,@][]" * 40,
    ],
)
def test_work_is_bounded_by_steps(text: str) -> None:
    with pytest.raises(TooMuchWorkError):
        Evaluation().value(compiled(text), WIDE)


def test_all_rules_share_what_a_record_may_take() -> None:
    rule = {
        "topic": "t",
        "target": "jobs",
        "id": ["id"],
        "when": "length(a[:20].b[?@ < `9`]) > `0`",
        "fields": {"job_id": "id"},
    }
    many = Options(
        rules=[MapRule.model_validate({**rule, "name": f"r{number}"}) for number in range(100)],
        max_record_kib=1024,
    )
    _, faults = RecordMap(many).of_record("t", json.dumps(WIDE).encode())
    assert [each.reason for each in faults].count("too_much_work") > 50
    assert len(faults) == 100


def test_usual_records_are_far_from_the_bound() -> None:
    usual = {"a": [{"b": list(range(8))} for _ in range(128)]}
    assert len(Evaluation().value(compiled("a[].b[]"), usual)) == 1024


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a" * (EXPRESSION_CHARS + 1), "at most 1000 characters"),
        ("(" * 900, "is nested too deeply|is no JMESPath"),
        ("!" * 500 + "a", "levels deep|nested too deeply"),
        ("a[", "is no JMESPath"),
        ("upper(a)", r"calls upper\(\), which is no function of JMESPath, split, pairs, quotient or joules"),
        ("a[?system(b)]", r"calls system\(\)"),
    ],
)
def test_an_expression_is_refused_before_it_meets_a_record(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        compiled(text)
