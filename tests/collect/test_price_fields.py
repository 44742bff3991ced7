"""A price field with a value that the meter refuses is found when a collector's table is read, not when its jobs cost nothing."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from streams.collect.options import CollectorOptions
from streams.collect.registry import COLLECTORS, options_of
from streams.errors import WrongUseError
from streams.topics import Topic

RULE = """
[json-files]
files = ["x"]
source = "s"
[[json-files.rules]]
name = "r"
target = "jobs"
id = ["id"]
"""


def options_with_price_fields() -> Iterator[tuple[str, str]]:
    """Yield each collector with each of its options that hold price fields."""
    for name, known in COLLECTORS.items():
        model: type[CollectorOptions] = import_module(f"streams.collect.{known.package}.options").Options
        yield from ((name, option) for option in model.model_fields if option.endswith("price_fields"))


def said(text: str, name: str, folder: Path) -> str:
    path = folder / "collect.toml"
    path.write_text(text)
    with pytest.raises(WrongUseError) as refused:
        options_of(name, path)
    return str(refused.value)


@pytest.mark.parametrize(("name", "option"), [*options_with_price_fields()])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            'purchase = "onprem"',
            'field `purchase`: got "onprem", expected one of on_demand, spot, reserved, on_prem; did you mean on_prem?',
        ),
        ('cloud = "trainfare-canary"', "field `cloud`: got "),
        (f'region = "{"ä" * 200}"', "field `region`: got "),
        ('region = "a\\u0000"', "field `region`: got "),
    ],
)
def test_a_value_that_the_meter_refuses_is_refused(
    name: str, option: str, value: str, expected: str, tmp_path: Path
) -> None:
    is_by_name = option != "price_fields"
    table = f"{{ {value} }}"
    text = f"[{name}]\n{option} = {f'{{ gpus = {table} }}' if is_by_name else table}\n"
    place = f"{tmp_path}/collect.toml [{name}] {option}{'.gpus' if is_by_name else ''}: {expected}"
    assert place in said(text, name, tmp_path)


def test_every_collector_of_a_scheduler_is_among_them() -> None:
    found = {name for name, _ in options_with_price_fields()}
    assert found >= {"slurm", "kubernetes", "ray", "dcgm", "nvidia-smi", "mlflow", "wandb", "sagemaker"}


@pytest.mark.parametrize(
    "given",
    [
        'constants = { type = "started", purchase = "onprem" }',
        'fields.purchase = { from = "p", values = { ours = "onprem" } }',
        'fields.purchase = { from = "p", values = { ours = "spot" }, otherwise = "onprem" }',
        'fields.purchase = { from = "p", default = "onprem" }',
    ],
)
def test_so_is_one_that_a_map_gives_to_a_field(given: str, tmp_path: Path) -> None:
    text = f'{RULE}fields.job_id = "id"\n{given}\n'
    assert "rules.0: field `purchase`: got" in (found := said(text, "json-files", tmp_path))
    assert "did you mean on_prem?" in found


def test_what_a_table_gives_to_a_unit_is_converted_first(tmp_path: Path) -> None:
    path = tmp_path / "collect.toml"
    path.write_text(
        f'{RULE}fields.job_id = "id"\nfields.time_ms = {{ from = "t", values = {{ a = 1.8e9 }}, unit = "s->ms" }}\n'
    )
    assert options_of("json-files", path).rules[0].target is Topic.JOBS  # type: ignore[attr-defined]  # of a map
