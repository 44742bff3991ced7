"""The pages about alerts against the code they speak of: rules, episodes, silences, planned rates.

What a page has and the code lacks fails as well as the other way round.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from schemas.tables import ALERTS, SCHEMAS
from streams.engine.alerts.alert import alert_id, webhook_id
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.outlook import CURRENT_MS
from streams.engine.kernels.episode_steps import REOPENS_MS
from streams.engine.kernels.precedence import (
    DRIFT_SILENT_MS,
    STANDSTILL_SILENT_MS,
    SUSTAINED_SILENT_MS,
    UNSAVED_SILENT_MS,
)
from streams.engine.rules.registry import ALL, BURN_RULES, BY_NAME, JOB_RULES, LEDGER_RULES
from streams.engine.rules.rule import PAGE_FROM, HourlyRule
from streams.engine.state.dimensions import MATCHED, AlertDimensions
from streams.rules.page import begin_of, render, tables
from tests.docs.sections import DOCS, published, rows, section, span


def read(page: str) -> str:
    return (DOCS / page).read_text()


SILENCES = "Silences, planned rates"


@pytest.mark.parametrize("page", ["rules.md", "ledger_rules.md", "runbook.md"])
def test_the_tables_of_rules_are_written_from_the_rules(page: str) -> None:
    """Run `make docs` where this fails."""
    assert render(read(page)) == read(page)


def test_each_table_of_rules_stands_on_one_page() -> None:
    pages = [page.read_text() for page in DOCS.glob("*.md")]
    assert [sum(begin_of(name) in page for page in pages) for name in tables()] == [1, 1, 1, 1]


def test_each_rule_is_found_by_its_title() -> None:
    """A message has nothing else of it."""
    rules = read("rules.md") + read("ledger_rules.md")
    assert [
        rule.name
        for rule in (*JOB_RULES, *LEDGER_RULES.values())
        if f"`{rule.name}` {rule.title}" not in rules
    ] == []
    assert [rule.title for rule in ALL if f"| {rule.title} |" not in read("runbook.md") and f"# {rule.title}\n" not in read("runbook.md")] == []  # fmt: skip


def _names(text: str) -> set[str]:
    """The rules that a text names, but burn rules."""
    return set(re.findall(r"`([a-z_]+)`", text)) & BY_NAME.keys() - _BURN


_BURN = {rule.name for rule in BURN_RULES}
_MESSAGES = "docs/messages.md"
#: Rules that are judged by the hour with more than one query.
_BY_HOUR = {"retry_overhead", "team_burn", "unusual_length"}


def test_each_rule_stands_in_the_table_of_its_figures() -> None:
    figures = section(read("rules.md"), "Rules").partition("\n### Condition rules\n")[2]
    head, _, table = figures.partition("|---|")
    assert "`cost_usd`" in head
    listed = [name for line in table.partition("\n\n")[0].splitlines() for name in _names(line.split("|")[1])]
    wanted = [rule.name for rule in JOB_RULES if rule.name not in _BURN]
    said = "docs/rules.md, Condition rules, the table of figures"
    assert len(listed) == len(set(listed)), f"{said}: a rule stands in one line of it"
    assert set(listed) == set(wanted), f"{said} lacks {set(wanted) - set(listed)}"


def test_each_rule_whose_dollars_decide_stands_in_the_table_of_severities() -> None:
    severity = section(read("messages.md"), "Severity")
    table = [line.split("|")[1] for line in severity.splitlines() if line.startswith("| ")]
    by_dollars = {rule.name for rule in JOB_RULES if PAGE_FROM in rule.thresholds} - _BURN
    # The same loop over several jobs is judged by the limits of the loop of one.
    assert _names(" ".join(table)) == by_dollars | {"resubmit_loop"}, (
        f"{_MESSAGES}, Severity: rules with `{PAGE_FROM}`"
    )
    rest = {rule.name for rule in JOB_RULES} - _BURN - by_dollars
    assert rest <= _names(severity.splitlines()[-2] + severity.splitlines()[-1]), (
        f"{_MESSAGES}, Severity: the last lines say what rules without `{PAGE_FROM}` are"
    )


def test_each_rule_of_which_something_goes_on_is_named_where_that_is_told() -> None:
    told = section(read("messages.md"), "What is to come")
    (line,) = (line for line in told.splitlines() if line.startswith("| the page, "))
    assert _names(line.split("|")[2]) == {rule.name for rule in ALL if rule.goes_on} - _BURN, (
        f"{_MESSAGES}, What is to come: the rules with `goes_on`"
    )


def test_each_operator_gets_what_its_rules_tell() -> None:
    want: dict[str, set[str]] = {}
    for rule in LEDGER_RULES.values():
        if rule.operator:
            want.setdefault(rule.operator, set()).add(rule.name)
    lines = section(read("messages.md"), "Operators").splitlines()
    gets = {
        name: _names(line) for line in lines if (name := line.removeprefix("| `").partition("`")[0]) in want
    }
    assert gets == want, f"{_MESSAGES}: the rules with `operator`"


def test_each_rule_on_the_ledger_that_is_not_judged_by_the_hour_stands_in_the_table_of_instants() -> None:
    table = section(read("ledger_rules.md"), "Rules across jobs").partition("An alert fires")[0]
    by_hour = {rule.name for rule in LEDGER_RULES.values() if isinstance(rule, HourlyRule)} | _BY_HOUR
    assert LEDGER_RULES.keys() - by_hour - _names(table) == set(), "docs/ledger_rules.md: when each is judged"


def test_a_page_without_a_table_or_its_end_is_refused() -> None:
    with pytest.raises(ValueError, match="no comment before a table of rules"):
        render("# Alerts\n")
    with pytest.raises(ValueError, match="no comment behind the table of burn rules"):
        render(begin_of("burn rules"))


def test_the_controls_on_the_page_are_understood(tmp_path: Path) -> None:
    silence, planned = published(section(read("silences.md"), SILENCES), tmp_path)
    controls = Controls.from_events([silence, planned])
    assert controls.faults == ()
    from_ms = int(str(silence.value["from_ms"]))
    job = AlertDimensions("run-7", owner="ada", team="vision")
    assert controls.silenced(job, "burn_sustained", "page", from_ms)
    assert not controls.silenced(job, "burn_fast", "page", from_ms)
    assert [rate for _, _, rate in controls.planned_for(AlertDimensions("run-8"))] == [440_330_000_000]


def test_the_match_fields_are_all_named() -> None:
    bullet = section(read("silences.md"), SILENCES).partition("- **Match fields**")[2].partition("\n- ")[0]
    assert {*MATCHED, "rule", "severity"} == set(re.findall(r"`([a-z_]+)`", bullet))


def test_ids_are_made_as_told() -> None:
    said = re.sub(r"\s+", " ", section(read("messages.md"), "Episodes"))
    alert, message = re.findall(r"`([A-Z_]+(?:\|[A-Z_]+)+)`", said)
    values = {"RULE": "unpriced", "SUBJECT_KIND": "job", "SUBJECT_NAME": "j", "STARTED_MS": "5"}
    values |= {"ALERT_ID": "al_1", "STATUS": "firing", "CHANGED_MS": "7"}
    assert "al_" + _digest(alert, values) == alert_id("unpriced", "job", "j", 5)
    assert "msg_" + _digest(message, values) == webhook_id("al_1", "firing", 7)


def _digest(form: str, values: Mapping[str, str]) -> str:
    return hashlib.sha256("|".join(values[name] for name in form.split("|")).encode()).hexdigest()[:24]


def test_the_columns_of_an_alert_are_all_told() -> None:
    told = {
        name
        for row in rows(section(read("alerts.md"), "What is stored"))
        for name in re.findall(r"`(\w+)`", row[0])
    }
    assert told == set(SCHEMAS[ALERTS].names) - {"alert_id", "shard", "version"}


def test_the_spans_of_an_episode_are_those_of_the_judge() -> None:
    assert f"within {span(REOPENS_MS)} of clearing" in read("messages.md")
    assert f"until {span(DRIFT_SILENT_MS)} after" in read("burn_rates.md")
    assert f"until {span(SUSTAINED_SILENT_MS)} after it cleared" in read("burn_rates.md")
    assert f"only one opens until {span(STANDSTILL_SILENT_MS)} after the other one cleared" in read(
        "rules.md"
    )
    assert f"a burn rule fires, and until {span(SUSTAINED_SILENT_MS)} after it cleared" in read("rules.md")
    assert f"does not open, and until {span(UNSAVED_SILENT_MS)} after" in read("rules.md")
    assert {rule.thresholds["extra_usd"].default for rule in JOB_RULES[: len(BURN_RULES)]} == {1}
    assert "at least $1,\n" in read("burn_rates.md")


def test_how_long_a_sentence_is_current() -> None:
    said = section(read("messages.md"), "What is to come")
    assert f"nothing from {span(CURRENT_MS)} after the instant on" in said
    assert f"more than {span(CURRENT_MS)} after that instant" in said
