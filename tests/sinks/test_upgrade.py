"""What this version would do to a store is said before it is done, and nothing is done by saying it."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.release import release
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.migrate import Form, Migration, ViewOrigin, form_of, shipped
from sinks.clickhouse.upgrade import StoredForm, changes_to, read_form
from sinks.clickhouse.view_files import fingerprints, shipped_views
from sinks.target import Embedded
from tests.new_store import begun

KNOWN, VIEWS = shipped(), shipped_views()
OURS = {name: ViewOrigin(release(), made_of) for name, made_of in fingerprints(VIEWS, KNOWN[-1].name).items()}
APPLIED = {each.name: each.checksum for each in KNOWN}


def said(
    migrations: dict[str, int], views: dict[str, ViewOrigin], *, has_origins: bool = True
) -> list[tuple[str, str, str]]:
    stored = StoredForm(Form(False, migrations, views), [], has_origins)
    return [tuple(each) for each in changes_to(stored)]  # type: ignore[misc]  # of three texts each


def test_a_store_of_this_version_stays() -> None:
    assert said(APPLIED, OURS) == [
        ("tables", f"stay: all {len(KNOWN)} files are applied", ""),
        ("views", f"stay: all {len(VIEWS)} are as this version has them", ""),
    ]


def test_each_migration_that_waits_is_said_with_what_it_is_for() -> None:
    found = said({"0001_tables.sql": APPLIED["0001_tables.sql"]}, {})
    assert found[0] == ("0003_hours.sql", f"is run once: {KNOWN[1].about}", "")
    assert [subject for subject, *_ in found] == [*(each.name for each in KNOWN[1:]), "views"]
    assert found[-1][1].startswith(f"{len(VIEWS)} made anew: ")
    assert found[-1][1].endswith(f" and {len(VIEWS) - 6} more")


@pytest.mark.parametrize("migration", KNOWN, ids=lambda each: each.name)
def test_every_migration_says_what_it_is_for(migration: Migration) -> None:
    assert migration.name == KNOWN[0].name or 10 < len(migration.about) < 200


def test_views_that_differ_or_are_gone_are_named() -> None:
    views = {
        **OURS,
        VIEWS[0].name: ViewOrigin("0.0.9", "0" * 16),
        "former_view": ViewOrigin("0.0.9", "0" * 16),
    }
    found = said(APPLIED, views)
    assert found[1] == ("views", f"1 made anew: {VIEWS[0].name}", "")
    assert found[2] == ("views", "1 dropped: former_view", "")
    through_an_old_worker = said(APPLIED, {}, has_origins=False)
    assert through_an_old_worker[1][1].startswith("those that differ are made anew")


def test_a_store_of_a_later_version_or_another_build_is_refused_with_what_mends_it() -> None:
    ((subject, text, mend),) = said({**APPLIED, "9999_next.sql": 1}, OURS)
    assert (subject, text) == ("tables", f"made by a later version than {release()} (it has 9999_next.sql)")
    assert mend == "use that version of trainfare, or later"
    later = {**OURS, VIEWS[0].name: ViewOrigin("99.0.0", "0" * 16)}
    assert f"it has {VIEWS[0].name}.sql of release 99.0.0" in said(APPLIED, later)[0][1]
    assert "differs" in said({**APPLIED, KNOWN[-1].name: 1}, OURS)[0][1]


def test_a_directory_is_read_and_nothing_in_it_changes(tmp_path: Path) -> None:
    empty = Embedded(data_dir=tmp_path / "empty")
    empty.engine_dir.mkdir(parents=True)
    stored = read_form(empty, 1_000)
    assert stored.form.is_new
    assert [each.found for each in changes_to(stored)] == [
        f"none yet: the first start makes them ({len(KNOWN)} files, {len(VIEWS)} views)"
    ]
    connection = ClickHouseConnection(empty, "system")
    try:
        assert form_of(connection, empty.database).is_new
        asked = "SELECT count() FROM system.databases WHERE name = 'trainfare'"
        assert connection.call(lambda client: client.command(asked)) == 0
    finally:
        connection.close()


def test_a_directory_of_this_version_has_its_form(tmp_path: Path) -> None:
    stored = read_form(Embedded(data_dir=begun(tmp_path / "data")), 1_000)
    assert stored.form.migrations == APPLIED
    assert not stored.heads
    assert all(each.found.startswith("stay") for each in changes_to(stored))
