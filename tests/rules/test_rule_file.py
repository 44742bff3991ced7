"""Files of rules: the shipped one is the code, records are functions of what they say, and every fault is named."""

from __future__ import annotations

import pytest

from schemas.decode import decode
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.rules.profiles import DEFAULT
from streams.engine.rules.registry import JOB_RULES, LEDGER_RULES, NAMES
from streams.engine.state.dimensions import AlertDimensions
from streams.errors import WrongUseError
from streams.rules.file import default_rules, rule_records
from streams.rules.settings import changed_settings, dimensions_of_row, rules_in_force, rules_of_job

NOW_MS = 1_780_000_000_000


def test_the_shipped_file_is_what_the_code_judges_by() -> None:
    records = rule_records("defaults.toml", default_rules(), NOW_MS)
    controls = Controls.from_events([record.event for record in records])
    assert [record.event.name for record in records] == [*NAMES, *LEDGER_RULES]
    assert all(len(each.thresholds) == len(JOB_RULES[each.rule].thresholds) for each in controls.rules)
    assert all(each.enabled is JOB_RULES[each.rule].enabled and each.severity for each in controls.rules)
    assert controls.profile_for(AlertDimensions("any")) == DEFAULT
    assert [changed_settings(record.event) for record in records] == [[] for _ in records]
    for each in controls.fleet_rules:
        assert (each.enabled, each.severity, each.thresholds) == settings_of(each.rule, [])
    for rule in (*JOB_RULES, *LEDGER_RULES.values()):
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
    (
        'rule = "team_burn"\nthresholds = { usd = 4 }',
        "team_burn has no such threshold, expected one of usd_per_hour, share_ratio",
    ),
    ('rule = "retry_overhead"\nthresholds = { attempts = 2.5 }', "got 2.5, expected a whole number"),
    ('rule = "price_jump"\nmatch = { team = "x" }', "price_jump is about the whole fleet: it takes no match"),
    ('rule = "team_burn"\nmatch = { cluster = "x" }', "team_burn matches on team, owner, project and exper"),
    ('rule = "unallocated"\nseverity = 1', "severity: got 1, expected one of page, ticket"),
    ('rule = "traffic"\nenabled = 1', "enabled: got 1, expected true or false"),
    ('rule = "traffic"\nseverity = "loud"', 'severity: got "loud", expected one of page, ticket'),
    ('rule = "traffic"\ncomment = 1979-05-27', "'f.toml'"),
    ('rule = "held"\nthresholds = { usual_ratio = 2 }', "held has no such threshold"),
    (
        'rule = "traffic"\nthresholds = { usual_ratio = 2 }\nmatch = { zone = "a", team = "x" }',
        "match: zone: usual_ratio goes by what is stored of a job, which has no such field",
    ),
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


_ONE = '[[rule]]\nname = "a"\nrule = "traffic"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"{_ONE}x = {'[' * 2_000}{']' * 2_000}\n", "f.toml: no TOML of rules: nested too deeply"),
        (_ONE + "x = " + "[\n" * 5_000 + "]\n" * 5_000, "f.toml: no TOML of rules: nested too deeply"),
        (f"{_ONE}thresholds = {{ ratio = 1{'0' * 4_000} }}\n", "f.toml line 1: [[rule]] 1 ('a'): "),
        (f"{_ONE}thresholds = {{ ratio = 1{'0' * 4_200} }}\n", "f.toml line 4: more than 4096 characters"),
        (f"{'.'.join('a' * 50_000)} = 1\n", "f.toml line 1: more than 4096 characters; break it"),
        ("#\n" * 2**19 + _ONE, "f.toml: more than 1048576 characters"),
        (
            "".join(f'[[rule]]\nname = "{k}"\nrule = "traffic"\n' for k in range(1_001)),
            "f.toml: 1,001 rules, 1000 at most",
        ),
        (f"{_ONE}thresholds = {{ ratio = inf }}\n", "thresholds.ratio: got inf, expected a number"),
        (f"{_ONE}thresholds = {{ ratio = nan }}\n", "thresholds.ratio: got nan, expected a number"),
    ],
)
def test_a_hostile_file_costs_little_and_is_refused_in_one_short_line(text: str, says: str) -> None:
    with pytest.raises(WrongUseError) as refused:
        rule_records("f.toml", text, NOW_MS)
    assert says in str(refused.value)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_all_faults_are_reported_at_once_up_to_a_number() -> None:
    text = "".join(f'[[rule]]\nname = "r{k}"\nrule = "none"\n' for k in range(23))
    with pytest.raises(WrongUseError) as refused:
        rule_records("f.toml", text, NOW_MS)
    lines = str(refused.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "and 3 more"


def test_every_fault_of_one_rule_is_reported() -> None:
    text = '[[rule]]\nname = "burn_fast"\nenable = true\nthresholds = { long_ratio = 0.5, log_ratio = 3 }\n'
    with pytest.raises(WrongUseError) as refused:
        rule_records("f.toml", text, NOW_MS)
    lines = str(refused.value).splitlines()
    fields = [line.removeprefix("f.toml line 1: [[rule]] 1 ('burn_fast'): ").split(":")[0] for line in lines]
    assert fields == ["enable", "thresholds.long_ratio", 'thresholds."log_ratio"']


#: The thresholds of `traffic` that the file does not set.
_OTHERS = ", start_times=2, repeated_ratio=0.5, page_usd_per_hour=100, usual_ratio=1.2"
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
severity = "page"
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
    assert _traffic("other") == ("on", "by dollars", f"usd_per_hour=50, ratio=1{_OTHERS}", "all")
    assert _traffic("vision") == ("on", "by dollars", f"usd_per_hour=50, ratio=2{_OTHERS}", "all, b-team")
    label = ("stage", "train")
    assert _traffic("other", label) == ("on", "page", f"usd_per_hour=50, ratio=3{_OTHERS}", "a-label, all")
    assert _traffic("vision", label, cluster="c") == (
        "on",
        "page",
        f"usd_per_hour=50, ratio=3{_OTHERS}",
        "a-label, all, b-team",
    )
    assert _traffic("vision", label)[:2] == ("off", "page")
    assert _traffic("vision", ("stage", "eval")) == _traffic("vision")


def test_what_is_in_force_names_the_jobs_and_the_records() -> None:
    rows = rules_in_force([record.event for record in rule_records("f", FILE, NOW_MS)])
    assert len(rows) == len(NAMES) + 3 + len(LEDGER_RULES)
    assert rows[NAMES.index("traffic")][1:] == (
        "every job", "on", "by dollars", f"usd_per_hour=50, ratio=1{_OTHERS}", "all",
    )  # fmt: skip
    assert [row.subjects for row in rows[len(NAMES) : -len(LEDGER_RULES)]] == [
        "label.stage=train",
        "team=vision",
        "cluster= label.stage=train team=vision",
    ]


FLEET = """
[[rule]]
name = "vision-limit"
rule = "team_burn"
thresholds = { usd_per_hour = 400 }
match = { team = "vision" }
[[rule]]
name = "half"
rule = "team_burn"
severity = "page"
thresholds = { share_ratio = 0.5 }
match = { team = "nlp", project = "p" }
[[rule]]
name = "a-waste"
rule = "retry_overhead"
thresholds = { least_usd = 20 }
[[rule]]
name = "b-waste"
rule = "retry_overhead"
thresholds = { least_usd = 30, lost_ratio = 0.3 }
"""


def _fleet_rows(team: str | None) -> list[tuple[str, ...]]:
    """What is shown of two rules across jobs; None: for every job."""
    events = [record.event for record in rule_records("f", FLEET, NOW_MS)]
    row = {"job_id": "j", "team": team, "project": "p"}
    rows = rules_in_force(events) if team is None else rules_of_job(events, dimensions_of_row(row), [])
    return [row for row in rows if row.rule in ("team_burn", "retry_overhead")]


def test_a_record_of_a_rule_across_jobs_says_what_it_changes() -> None:
    changes = [changed_settings(record.event) for record in rule_records("f", FLEET, NOW_MS)]
    assert changes == [
        [("vision-limit", "team_burn", "team=vision", "usd_per_hour", "0", "400")],
        [
            ("half", "team_burn", "project=p team=nlp", "severity", "ticket", "page"),
            ("half", "team_burn", "project=p team=nlp", "share_ratio", "0", "0.5"),
        ],
        [("a-waste", "retry_overhead", "every job", "least_usd", "10", "20")],
        [
            ("b-waste", "retry_overhead", "every job", "lost_ratio", "0.1", "0.3"),
            ("b-waste", "retry_overhead", "every job", "least_usd", "10", "30"),
        ],
    ]


def test_each_limit_of_a_team_is_shown_by_itself_and_to_its_jobs_only() -> None:
    waste = ("every job", "on", "ticket", "lost_ratio=0.3, least_usd=20, attempts=3", "a-waste, b-waste")
    half = ("project=p team=nlp", "on", "page", "usd_per_hour=0, share_ratio=0.5", "half")
    vision = ("team=vision", "on", "ticket", "usd_per_hour=400, share_ratio=0", "vision-limit")
    none = ("the fleet", "on", "ticket", "usd_per_hour=0, share_ratio=0", "default")
    assert [row[1:] for row in _fleet_rows(None)] == [half, vision, waste]
    assert [row[1:] for row in _fleet_rows("vision")] == [vision, waste]
    assert [row[1:] for row in _fleet_rows("nlp")] == [half, waste]
    assert [row[1:] for row in _fleet_rows("other")] == [none, waste]


def test_each_rule_across_jobs_says_what_it_judges() -> None:
    shown = {row.rule: row.subjects for row in rules_in_force([]) if row.rule in LEDGER_RULES}
    assert shown == {
        "team_burn": "the fleet",
        "retry_overhead": "every job",
        "unallocated": "the fleet",
        "owner_coverage": "the fleet",
        "forgotten_node": "every node group",
        "provisioning_burst": "the fleet",
        "oversized": "every job",
        "unusual_length": "every job",
        "price_jump": "every sku",
        "unsampled_gpus": "every job",
        "missing_price": "every missing price",
        "not_understood": "every cause of a source",
        "incident": "every cause",
        "double_held": "every job",
        "after_node": "every job",
        "empty_group": "every node group",
        "metered_twice": "every job",
        "straggler": "every job",
        "inefficient": "every job",
        "resubmit_loop": "every job",
        "spinning": "every job",
        "team_ceiling": "every team",
        "clock_ahead": "every source",
        "silent_source": "every source",
    }


def test_what_decides_the_severity_is_shown() -> None:
    text = '[[rule]]\nname = "idle_gpus"\nseverity = "page"\n[[rule]]\nname = "x"\nrule = "retry_loop"\nteam = "a"\n'
    text = text.replace('team = "a"', 'match = { team = "a" }\nthresholds = { page_usd_per_hour = 50 }')
    shown = rules_in_force([record.event for record in rule_records("f", text, NOW_MS)])
    found = {(each.rule, each.subjects): each.severity for each in shown}
    assert found["retry_loop", "every job"] == found["idle_gpus", "every job"] == "page"
    assert found["retry_loop", "team=a"] == found["burn_fast", "every job"] == "by dollars"
    assert found["unpriced", "every job"] == "ticket"


def test_a_rule_by_sql_that_sets_no_severity_changes_none() -> None:
    text = '[[rule]]\nname = "mine"\nevery = "1h"\nsql = "SELECT {from} {to}"\n'
    for more, settings in (("", ["every"]), ('severity = "page"\n', ["every", "severity"])):
        (record,) = rule_records("f", text + more, NOW_MS)
        assert [each.setting for each in changed_settings(record.event)] == settings
