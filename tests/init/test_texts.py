"""Names of strangers in TOML, CSV, units and manifests: they add no line, no key and no command."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from streams.collect.registry import COLLECTORS, options_of
from streams.config.load import load_settings
from streams.errors import WrongUseError
from streams.init.price_file import prices_csv, rows_in
from streams.init.texts import (
    chart_values,
    collect_toml,
    options_model,
    secret_manifest,
    toml_value,
    trainfare_toml,
    unit,
)

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
_ODD = 'a"]\n[web]\ntoken = "x" # \\ \x7f \x1b $HOME %h {}'


@given(
    st.recursive(
        st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | _TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_value_comes_back_from_toml_as_it_was(value: Any) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value


def test_what_has_no_form_in_toml_is_refused() -> None:
    with pytest.raises(TypeError, match="NoneType has no form in TOML"):
        toml_value(None)


@given(_TEXT)
def test_a_hostile_name_is_one_key_of_one_table(name: str) -> None:
    chosen = {"gpu_types": {name: name}, "partition_price_fields": {name: {"gpu_type": name}}}
    assert tomllib.loads(collect_toml({"slurm": chosen})) == {"slurm": chosen}


@pytest.mark.parametrize("collector", sorted(COLLECTORS))
def test_every_collector_has_all_its_options_as_comments_with_their_defaults(collector: str) -> None:
    text = collect_toml({collector: {}})
    assert tomllib.loads(text) == {collector: {}}
    shown = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ") and " = " in line]
    fields = options_model(collector).model_fields
    assert [line.partition(" = ")[0] for line in shown] == list(fields)
    for line, (name, field) in zip(shown, fields.items(), strict=True):
        if not line.startswith(f"{name} = ..."):
            assert (
                tomllib.loads(line)[name]
                == tomllib.loads(f"x = {toml_value(field.get_default(call_default_factory=True))}")["x"]
            )


def test_the_collectors_file_is_what_was_chosen(tmp_path: Path) -> None:
    chosen = {"since": datetime(2026, 11, 28, 17, 0, 5, tzinfo=UTC), "gpu_types": {_ODD: "H100"}}
    file = tmp_path / "collect.toml"
    file.write_text(collect_toml({"slurm": chosen}))
    options = options_of("slurm", file).model_dump()
    assert {name: options[name] for name in chosen} == chosen


def test_settings_keep_their_meaning_and_hostile_values_stay_values(tmp_path: Path) -> None:
    file = tmp_path / "trainfare.toml"
    folder = tmp_path / 'q"uo\nte'
    file.write_text(trainfare_toml({"web.port": 8788, "clickhouse.data_dir": folder}))
    settings = load_settings({}, file)
    assert (settings.web.port, settings.clickhouse.data_dir) == (8788, folder)
    assert settings.web.token is None


@example([{"sku": "\f#"}])
@given(st.lists(st.dictionaries(st.sampled_from(["sku", "gpu_type", "cloud", "note"]), _TEXT), max_size=4))
def test_cells_of_a_price_list_stay_cells(rows: list[dict[str, str]]) -> None:
    text = prices_csv(rows, [_ODD])
    head = [line for line in text.split("\n") if line.startswith("#")]
    kept = [row for row in rows if any(cell.strip() for cell in row.values())]
    if not any("\n" in cell or "\r" in cell or cell.startswith("#") for row in rows for cell in row.values()):
        assert len(head) == 3
    found = rows_in("prices.csv", text)
    assert [{name: cell for name, cell in each.items() if cell} for each in found if any(each.values())] == [
        {name: cell.strip() for name, cell in row.items() if cell.strip()} for row in kept
    ]


def test_a_path_with_odd_characters_stays_one_word_of_a_unit() -> None:
    text = unit("the meter", ["/a b/%h/$x", 'say "no"'], {"NAME": 'a"b%c'}, Path("/var/a b%"), "ada")
    assert 'ExecStart="/a b/%%h/$$x" "say \\"no\\""' in text
    assert 'Environment="NAME=a\\"b%%c"' in text
    assert "WorkingDirectory=/var/a b%%\n" in text


def test_a_path_with_a_line_break_is_no_unit() -> None:
    with pytest.raises(WrongUseError, match="printable ASCII"):
        unit("the meter", ["/bin/true\nExecStartPre=/bin/sh"], {}, Path("/tmp"), "ada")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_takes_a_unit(tmp_path: Path) -> None:
    file = tmp_path / "trainfare.service"
    file.write_text(unit("the meter", ["/bin/true", "a b", "%h $HOME"], {"A": "b c%"}, tmp_path, "root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert str(file) not in done.stderr, done.stderr
    file.write_text(file.read_text().replace("[Service]", "[Service]\nNonsense=1"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(file)], capture_output=True, text=True, check=False
    )
    assert "Nonsense" in done.stderr


@given(_TEXT)
def test_what_kubernetes_takes_holds_its_text_whatever_that_is(text: str) -> None:
    table = {
        "cluster": text,
        "gpu_types": {text: text},
        "targets": [text],
        "since": datetime(2026, 3, 1, tzinfo=UTC),
    }
    found = yaml.safe_load(chart_values({"kubernetes": table, "dcgm": {}}))["collectors"]["tables"]
    assert found == {"kubernetes": {**table, "since": "2026-03-01T00:00:00Z"}, "dcgm": {}}
    assert yaml.safe_load(secret_manifest(text))["stringData"] == {"token": text}
