"""Which alerts fire in the example trace: what examples/README.md says of them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.cli.command import trainfare

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SQL = "SELECT rule, severity, toUInt32(count()) AS alerts FROM alerts GROUP BY rule, severity ORDER BY rule"


def test_the_alerts_of_helios_500_are_those_of_its_page(tmp_path: Path) -> None:
    replayed = trainfare("replay", EXAMPLES / "helios-500.jsonl.gz", "--data", tmp_path / "meter")
    assert replayed.code == 0, replayed.err
    asked = trainfare("sql", "--data", tmp_path / "meter", "--format", "json", SQL)
    found = json.loads(asked.out)
    assert {row["severity"] for row in found} == {"ticket"}
    page = (EXAMPLES / "README.md").read_text()
    text = re.search(r"and (\d+) tickets do: (.+?)\. ", page)
    assert text is not None
    counts = {rule: int(count) for count, rule in re.findall(r"(\d+) of `(\w+)`", text[2])}
    assert counts == {row["rule"]: row["alerts"] for row in found}
    assert sum(counts.values()) == int(text[1])
