"""The examples of docs/prices.md, "Amortised prices": recomputed in plain Python, and printed by their command."""

from __future__ import annotations

import json
import re
import shlex
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from tests.cli.command import trainfare

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "prices.md").read_text()
SECTION = PAGE.partition("\n## Amortised prices\n")[2].partition("\n## ")[0]
EXAMPLES = re.findall(r"```sh\n(trainfare prices amortize .*?)\n```(.*?)(?=```sh|\Z)", SECTION, re.DOTALL)


def _prices(text: str) -> dict[str, tuple[str, str]]:
    return {
        sku: (usd, formula)
        for sku, usd, formula in re.findall(r"^\| (\S+\.\S+) \| ([\d.]+) \| (.+?) \|$", text, re.M)
    }


def _schedule(text: str) -> list[tuple[Decimal, ...]]:
    rows = re.findall(r"^\| (\d+) \| ([\d,.]+) \| ([\d,.]+) \| ([\d,.]+) \|$", text, re.M)
    return [tuple(Decimal(cell.replace(",", "")) for cell in row) for row in rows]


def _value(formula: str) -> Fraction:
    """Return `a x b / c` exactly."""
    above, _, below = formula.replace(",", "").partition(" / ")
    value = Fraction(1)
    for factor in above.split(" x "):
        value *= Fraction(factor)
    return value / Fraction(below)


def test_there_are_two_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize(("command", "text"), EXAMPLES)
def test_prices_follow_from_their_formulas(command: str, text: str) -> None:
    options = dict(zip(*[iter(shlex.split(command)[3:])] * 2, strict=True))
    months = Fraction(options["--years"]) * 12
    hours = months * 730
    paid = hours * int(options["--gpus"]) * Fraction(options.get("--use", "1"))
    loss = Fraction(options["--usd"]) - Fraction(options.get("--salvage", "0"))
    kw = Fraction(options.get("--kw-per-node", "0")) + Fraction(options.get("--kw-per-gpu", "0")) * int(
        options["--gpus"]
    )
    power = kw * Fraction(options.get("--pue", "1")) * Fraction(options["--usd-per-kwh"]) * hours
    staff = Fraction(options.get("--staff-usd-per-year", "0")) * months / 12
    expected = {"hardware": loss / paid, "power": power / paid, "staff": staff / paid}
    found = _prices(text)
    assert {sku.rpartition(".")[2] for sku in found} == {name for name, usd in expected.items() if usd}
    for sku, (usd, formula) in found.items():
        exact = expected[sku.rpartition(".")[2]]
        assert _value(formula) == exact
        assert Fraction(usd) == Fraction(round(exact * 10**9), 10**9)


@pytest.mark.parametrize(("command", "text"), EXAMPLES)
def test_schedules_sum_to_purchase_less_salvage(command: str, text: str) -> None:
    options = dict(zip(*[iter(shlex.split(command)[3:])] * 2, strict=True))
    rows = _schedule(text)
    assert rows[0][1] == Decimal(options["--usd"])
    assert rows[-1][3] == Decimal(options.get("--salvage", "0"))
    assert sum(row[2] for row in rows) == rows[0][1] - rows[-1][3]
    for _, opening, depreciation, closing in rows:
        assert closing == opening - depreciation


@pytest.mark.parametrize(("command", "text"), EXAMPLES)
def test_the_command_prints_them(command: str, text: str) -> None:
    done = trainfare(*shlex.split(command)[1:], "--format", "json")
    assert (done.code, done.err) == (0, "")
    printed = json.loads(done.out)
    assert {each["sku"]: Decimal(each["usd"]) for each in printed["prices"]} == {
        sku: Decimal(usd) for sku, (usd, _) in _prices(text).items()
    }
    assert [tuple(map(Decimal, map(str, row.values()))) for row in printed["schedule"]] == _schedule(text)
