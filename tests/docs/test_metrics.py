"""docs/metrics.md against what a worker exposes and the rules that are shipped: neither has what the other lacks."""

import re
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent
from streams.collect.metrics import CollectorMetrics
from streams.topics import Topic
from streams.web import metrics
from tests.web.test_metrics import FACTS, STATUS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text()
#: Tags of bills, which are no metrics.
# What has such a name and is no metric: tags, and the role that reads.
TAGS = {"trainfare_job", "trainfare_node", "trainfare_reader"}
OTHERS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RULES = yaml.safe_load((ROOT / "deploy/prometheus/trainfare-rules.yml").read_text())["groups"][0]["rules"]


def _rows(first: str) -> list[list[str]]:
    """The cells of all tables whose rows begin like this."""
    lines = [line for line in PAGE.splitlines() if line.startswith(f"| `{first}")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def _exposed() -> dict[str, tuple[str, set[str]]]:
    """Name -> (type, labels) of everything of ours on the page of metrics."""
    found: dict[str, tuple[str, set[str]]] = {}
    page = metrics.page(STATUS, FACTS, 1, "1.2.3").decode() + _of_a_collector()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name.startswith("trainfare_") and not sample.name.endswith("_created"):
                labels = found.get(sample.name, ("", set()))[1]
                found[sample.name] = (family.type, labels | set(sample.labels))
    return found


def _of_a_collector() -> str:
    registry = CollectorRegistry()
    counts = CollectorMetrics("dcgm", registry)
    counts.published([CollectedEvent(Topic.GPU, {})])
    account = Account()
    account.not_understood("oversize", "a line")
    counts.read(account)
    counts.unattributed({"no_node": 1})
    counts.polled(1)
    return generate_latest(registry).decode()


def test_the_tables_of_metrics_are_what_a_worker_exposes() -> None:
    rows = _rows("trainfare_")
    told = {row[0].strip("`"): (row[1], {each.strip() for each in row[2].split(",")} - {""}) for row in rows}
    assert told == _exposed()
    assert len(rows) == len(told), "each is told once"


def test_no_other_metric_is_named_on_any_page() -> None:
    families = {re.sub(r"_total$", "", name) for name in _exposed()}
    for page in OTHERS:
        named = set(re.findall(r"\btrainfare_[a-z_]+\b(?![-.(])", page.read_text()))
        assert {re.sub(r"_total$", "", name) for name in named} - families - TAGS == set(), page


def test_the_store_s_own_series_are_marked() -> None:
    marked = {row[0].strip("`") for row in _rows("trainfare_") if row[3].startswith("*")}
    without_store = metrics.page(STATUS, None, 1, "1.2.3").decode()
    without_store += _of_a_collector()
    assert marked == {name for name in _exposed() if f"\n{name}" not in without_store}


def test_the_table_of_rules_is_what_is_shipped() -> None:
    told = [(row[0].strip("`"), row[1]) for row in _rows("Trainfare")]
    assert told == [(rule["alert"], rule["labels"]["severity"]) for rule in RULES]


def test_no_other_rule_is_named_on_any_page() -> None:
    shipped = {rule["alert"] for rule in RULES}
    for page in OTHERS:
        assert set(re.findall(r"`(Trainfare\w+)`", page.read_text())) - shipped == set(), page
