"""A setting that was renamed is read under its former name by one minor version, with a warning, and never in silence."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from streams.config.load import SettingsError, former_names, groups, load_settings, variable
from streams.config.renamed import RENAMED, RenamedSetting
from tests.cli.command import trainfare
from tests.meta.tree import ROOT

_OLD = "[query]\nconcurrent = 5\n\n[meter]\nbacklog_max_bytes = 1048577\n"


def overdue(renamed: tuple[RenamedSetting, ...], version: str) -> list[str]:
    """Former names that this minor version must not read any more."""
    minor = tuple(map(int, version.split(".")[:2]))
    return [each.former for each in renamed if tuple(map(int, each.since.split("."))) < minor]


def test_a_former_name_is_gone_one_minor_version_later() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert overdue(RENAMED, version) == [], (
        "remove them from streams/config/renamed.py, and say so in CHANGELOG.md"
    )
    assert overdue(RENAMED, "0.3.0") == [each.former for each in RENAMED]


def test_every_new_name_is_a_setting_and_no_former_one_is() -> None:
    known = {f"{group}.{name}" for group, model in groups().items() for name in model.model_fields}
    assert {each.name for each in RENAMED} <= known
    assert not {each.former for each in RENAMED} & known


@pytest.mark.parametrize("renamed", RENAMED, ids=lambda each: each.former)
def test_each_is_read_by_its_former_variable(renamed: RenamedSetting) -> None:
    group, _, name = renamed.name.partition(".")
    default = getattr(getattr(load_settings({}), group), name)
    env = {variable(*renamed.former.split(".")): str(default - 1)}
    assert getattr(getattr(load_settings(env), group), name) == default - 1
    assert [each.renamed for each in former_names(env)] == [renamed]


def test_a_file_with_former_names_is_read_and_said(tmp_path: Path) -> None:
    file = tmp_path / "trainfare.toml"
    file.write_text(_OLD)
    settings = load_settings({}, file)
    assert (settings.query.max_concurrent, settings.meter.max_backlog_bytes) == (5, 1_048_577)
    said = [str(each) for each in former_names({}, file)]
    assert said[0] == (
        f"query.concurrent (from {file}) is called query.max_concurrent since 0.2: rename it, the next minor version will not "
        "read it"
    )
    assert len(said) == 2
    assert former_names({}) == []


def test_a_value_under_the_new_name_wins_from_a_later_source(tmp_path: Path) -> None:
    file = tmp_path / "trainfare.toml"
    file.write_text(_OLD)
    env = {"TRAINFARE_QUERY_MAX_CONCURRENT": "7"}
    assert load_settings(env, file).query.max_concurrent == 7
    assert [each.renamed.former for each in former_names(env, file)] == ["meter.backlog_max_bytes"]


def test_both_names_at_once_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "trainfare.toml"
    file.write_text("[query]\nconcurrent = 5\nmax_concurrent = 6\n")
    with pytest.raises(
        SettingsError, match=r"query.concurrent: got a value, expected only query.max_concurrent"
    ):
        load_settings({}, file)
    with pytest.raises(SettingsError, match="expected only TRAINFARE_QUERY_MAX_CONCURRENT"):
        load_settings({"TRAINFARE_QUERY_CONCURRENT": "5", "TRAINFARE_QUERY_MAX_CONCURRENT": "6"})


def test_a_wrong_value_names_the_setting_and_where_it_stands() -> None:
    with pytest.raises(
        SettingsError, match=r"query.max_concurrent: got 0, .*from TRAINFARE_QUERY_CONCURRENT"
    ):
        load_settings({"TRAINFARE_QUERY_CONCURRENT": "0"})


def test_commands_warn_on_stderr_and_config_check_lists_them(tmp_path: Path) -> None:
    env = {"TRAINFARE_QUERY_CONCURRENT": "3"}
    done = trainfare("jobs", "--data", tmp_path / "none", env=env)
    assert (
        "warning: query.concurrent (from TRAINFARE_QUERY_CONCURRENT) is called query.max_concurrent"
        in done.err
    )
    checked = trainfare("config", "check", env=env)
    assert checked.code == 0
    assert "note: query.concurrent (from TRAINFARE_QUERY_CONCURRENT)" in checked.err
    assert trainfare("config", "check").err == ""


def test_a_worker_logs_them_as_its_other_lines(tmp_path: Path) -> None:
    env = {
        "TRAINFARE_QUERY_CONCURRENT": "3",
        "TRAINFARE_WEB_ENABLED": "false",
        "TRAINFARE_LOG_FORMAT": "json",
    }
    done = trainfare("serve", "--data", tmp_path / "data", env=env)
    assert done.code == 2  # as it takes events over HTTP
    assert '"former": "query.concurrent"' in done.err
    assert '"setting": "query.max_concurrent"' in done.err
