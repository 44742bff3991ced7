"""Files of rules: the shipped one is the code, records are functions of what they say, and every fault is named."""

from __future__ import annotations

import pytest

from schemas.decode import decode
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.dimensions import AlertDimensions
from streams.engine.alerts.profiles import DEFAULT
from streams.engine.alerts.rules import JOB_RULES, NAMES
from streams.errors import WrongUseError
from streams.rules.file import default_rules, rule_records
from streams.rules.settings import changed_settings, dimensions_of_row, rules_in_force, rules_of_job

NOW_MS = 1_780_000_000_000


def test_the_shipped_file_is_what_the_code_judges_by() -> None:
    records = rule_records("defaults.toml", default_rules(), NOW_MS)
    controls = Controls.from_events([record.event for record in records])
    assert [record.event.name for record in records] == list(NAMES)
    assert all(len(each.thresholds) == len(JOB_RULES[each.rule].thresholds) for each in controls.rules)
    assert all(each.enabled is True and each.severity for each in controls.rules)
    assert controls.profile_for(AlertDimensions("any")) == DEFAULT
    assert [changed_settings(record.event) for record in records] == [[] for _ in records]
    for rule in JOB_RULES:
        for threshold in rule.thresholds.values():
            assert threshold.what in default_rules()


def test_ids_are_functions_of_what_a_record_says() -> None:
    text = '[[rule]]\nname = "a"\nrule = "traffic"\nenabled = false\n'
    (one,), (later,) = rule_records("f", text, NOW_MS), rule_records("g", "\n" + text, NOW_MS + 1)
    (other,) = rule_records("f", text.replace("false", "true"), NOW_MS)
    assert one.event.id == later.event.id != other.event.id
    assert one.key == b"rule/a"
    assert (one.line, later.line) == (1, 2)
    assert decode("controls", one.value, [], NOW_MS) == one.event


FAULTS = (
    ('rule = "burn_fas"', 'rule: got "burn_fas", expected one of burn_fast, burn_sustained'),
    (
        'rule = "traffic"\nthresholds = { ratio = 0.0 }',
        "thresholds.ratio: got 0.0, expected a number from 0.01 to",
    ),
    ('rule = "traffic"\nthresholds = { ratio = true }', "thresholds.ratio: got true, expected a number"),
    (
        'rule = "traffic"\nthresholds = { rato = 1 }',
        "traffic has no such threshold, expected one of usd_per_hour, ratio",
    ),
    ('rule = "traffic"\nthresholds = 1', "thresholds: expected an object of usd_per_hour, ratio"),
    (
        'rule = "retry_loop"\nthresholds = { failures = 2.5 }',
        "thresholds.failures: got 2.5, expected a whole number",
    ),
    ('rule = "traffic"\nmatch = { tea = "x" }', "tea: no such match field, expected one of job_id, owner"),
    ('rule = "traffic"\nmatch = { team = 1 }', "team: expected a string"),
    ('rule = "traffic"\nmatch = 1', "match: expected an object of match fields"),
    ('rule = "traffic"\nenable = false', "enable: no such field, expected one of name, rule, enabled"),
    ('rule = "traffic"\nenabled = 1', "enabled: got 1, expected true or false"),
    ('rule = "traffic"\nseverity = "loud"', 'severity: got "loud", expected one of page, ticket'),
    ('rule = "traffic"\ncomment = 1979-05-27', "'f.toml'"),
)


@pytest.mark.parametrize(("table", "says"), FAULTS)
def test_a_fault_is_named_with_its_line_and_what_is_allowed(table: str, says: str) -> None:
    text = f'# a file\n[[rule]]\nname = "a"\nrule = "burn_fast"\n\n[[rule]]\nname = "b"\n{table}\n'
    if "comment" in table:
        rule_records("f.toml", text, NOW_MS)  # a date is a text
        return
    with pytest.raises(WrongUseError) as refused:
        rule_records("f.toml", text, NOW_MS)
    assert str(refused.value).startswith("f.toml line 6: [[rule]] 2 ('b'): ")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rule]\n", "no TOML: "),
        ("rules = 1\n", "'rules': expected tables [[rule]] only"),
        ("rule = 1\n", "'rule': expected tables [[rule]] only"),
        ('[[rule]]\nrule = "traffic"\n', "line 1: [[rule]] 1: name: expected the name of this record"),
        ('[[rule]]\nname = "traffic"\n[[rule]]\nname = "traffic"\n', "the rule of line 1 has this name, too"),
        ('[[rule]]\nname = "other"\n', 'name (without a field `rule`): got "other"'),
    ],
)
def test_a_file_that_is_none_is_refused(text: str, says: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        rule_records("f.toml", text, NOW_MS)
    assert says in str(refused.value)


def test_all_faults_are_reported_at_once_up_to_a_number() -> None:
    text = "".join(f'[[rule]]\nname = "r{k}"\nrule = "none"\n' for k in range(23))
    with pytest.raises(WrongUseError) as refused:
        rule_records("f.toml", text, NOW_MS)
    lines = str(refused.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 3 more"


FILE = """
[[rule]]
name = "all"
rule = "traffic"
thresholds = { usd_per_hour = 50 }
[[rule]]
name = "b-team"
rule = "traffic"
thresholds = { ratio = 2 }
match = { team = "vision" }
[[rule]]
name = "a-label"
rule = "traffic"
severity = "ticket"
thresholds = { ratio = 3 }
match = { "label.stage" = "train" }
[[rule]]
name = "both"
rule = "traffic"
enabled = false
match = { team = "vision", "label.stage" = "train", cluster = "" }
"""


def _traffic(team: str, *labels: tuple[str, str], cluster: str = "") -> tuple[str, ...]:
    events = [record.event for record in rule_records("f", FILE, NOW_MS)]
    row = {"job_id": "j", "team": team, "cluster": cluster, "owner": None}
    (found,) = (
        each for each in rules_of_job(events, dimensions_of_row(row), labels) if each.rule == "traffic"
    )
    return found[2:]


def test_the_record_with_the_most_match_fields_wins_then_the_smallest_name() -> None:
    assert _traffic("other") == ("on", "page", "usd_per_hour=50, ratio=1", "all")
    assert _traffic("vision") == ("on", "page", "usd_per_hour=50, ratio=2", "all, b-team")
    label = ("stage", "train")
    assert _traffic("other", label) == ("on", "ticket", "usd_per_hour=50, ratio=3", "a-label, all")
    assert _traffic("vision", label, cluster="c") == (
        "on",
        "ticket",
        "usd_per_hour=50, ratio=3",
        "a-label, all, b-team",
    )
    assert _traffic("vision", label)[:2] == ("off", "ticket")
    assert _traffic("vision", ("stage", "eval")) == _traffic("vision")


def test_what_is_in_force_names_the_jobs_and_the_records() -> None:
    rows = rules_in_force([record.event for record in rule_records("f", FILE, NOW_MS)])
    assert len(rows) == len(NAMES) + 3
    assert rows[NAMES.index("traffic")][1:] == ("every job", "on", "page", "usd_per_hour=50, ratio=1", "all")
    assert [row.jobs for row in rows[len(NAMES) :]] == [
        "label.stage=train",
        "team=vision",
        "cluster= label.stage=train team=vision",
    ]
