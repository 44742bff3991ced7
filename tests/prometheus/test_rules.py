"""Our rules by Prometheus' own checker: they parse, each fires when it should and is quiet when not, none is untested."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.web import metrics
from tests.prometheus.conftest import program_or_skip
from tests.web.test_metrics import FACTS, STATUS, families

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
RULES = FOLDER / "trainfare-rules.yml"
CASES = Path(__file__).with_name("rules_test.yml")
CAPTION = re.compile(r"^#+ (.+)$", re.MULTILINE)


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def done(*command: str | Path) -> str:
    found = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout


def test_the_rules_are_well_formed(program: Callable[[str], str]) -> None:
    assert f"{len(rules())} rules found" in done(program("promtool"), "check", "rules", RULES)


def test_the_configuration_is_well_formed_and_finds_the_rules(
    program: Callable[[str], str], tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    text = (FOLDER / "prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text.replace("/run/secrets/web_metrics_token", str(token)))
    (tmp_path / RULES.name).write_text(RULES.read_text())
    said = done(program("promtool"), "check", "config", tmp_path / "prometheus.yml")
    assert "1 rule files found" in said
    assert f"{len(rules())} rules found" in said


def test_each_rule_fires_when_it_should_and_is_quiet_when_not(program: Callable[[str], str]) -> None:
    assert "SUCCESS" in done(program("promtool"), "test", "rules", CASES)


def firing() -> Iterator[tuple[str, set[str]]]:
    """Of each look of each case: the case's name, and the rules that must fire then."""
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for look in case["promql_expr_test"]:
            labels = [sample["labels"] for sample in look["exp_samples"]]
            yield (
                case["name"].partition(":")[0],
                {re.findall(r'alertname="(\w+)"', each)[0] for each in labels},
            )


@pytest.mark.parametrize("name", [rule["alert"] for rule in rules()])
def test_no_rule_is_without_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    looks = [found for case, found in firing() if case == name]
    assert {name} in looks
    assert set() in looks


def test_there_is_no_case_for_a_rule_that_is_gone() -> None:
    assert {case for case, _ in firing()} == {rule["alert"] for rule in rules()}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_asks_for_metrics_that_a_worker_has(rule: dict[str, Any]) -> None:
    exposed = {
        sample.name
        for family in families(metrics.page(STATUS, FACTS, 1, "1")).values()
        for sample in family.samples
    }
    asked = set(re.findall(r"\b(?:trainfare_\w+|up)\b", rule["expr"]))
    assert asked
    assert asked <= exposed | {"up"}


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_a_rule_says_how_bad_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"] in ({"severity": "page"}, {"severity": "ticket"})
    assert set(rule["annotations"]) == {"summary", "action", "runbook"}
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    captions = CAPTION.findall((ROOT / page).read_text())
    assert anchor in {re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in captions}


def test_without_the_programs_the_tests_are_skipped_and_fail_where_they_are_demanded() -> None:
    with pytest.raises(pytest.skip.Exception, match="no `no-such-program` on the PATH"):
        program_or_skip("no-such-program", required=False)
    with pytest.raises(pytest.fail.Exception, match="TRAINFARE_REQUIRE_PROMETHEUS=1, but no `no-such"):
        program_or_skip("no-such-program", required=True)
