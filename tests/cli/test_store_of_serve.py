"""A backup of the tables of `trainfare serve` lacks its log: each command on the way says so, and what to copy."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from streams.config.settings import KafkaSettings
from streams.segmented_log.directory import DIRECTORY, lacks_log
from streams.transport.cluster import log_name
from tests.cli.command import trainfare
from tests.new_store import begun

ON_DISK = log_name(KafkaSettings(), "0123456789abcdef" * 2)


def test_a_store_without_its_log_is_said_by_every_command_until_it_is_copied(tmp_path: Path) -> None:
    live, again, place = tmp_path / "live", tmp_path / "again", tmp_path / "backup"
    begun(live)
    with closing(ClickHouseStore(Embedded(data_dir=live))) as store:
        store.meta.put("log", ON_DISK)
    (live / DIRECTORY).mkdir()
    (live / "token").write_text("secret")
    copy = f"cp -a DIR/log {again}/"

    backed_up = trainfare("store", "backup", place, "--data", live)
    assert backed_up.out.splitlines()[-1] == (
        f"not in it, copy them too (cp -a) before `trainfare serve` runs again: {live}/log, {live}/token"
    )
    restored = trainfare("store", "restore", place, "--data", again)
    assert "before `trainfare serve` can go on with it, copy the folder `log`" in restored.out
    assert restored.out.endswith(f"{copy}\n")
    refused = trainfare("serve", "--data", again)
    assert refused.code == 2
    assert f"trainfare: {again} has a store without its log" in refused.err
    assert copy in refused.err
    assert "Kafka" not in refused.err
    checked = trainfare("upgrade", "check", "--data", again)
    assert (checked.code, copy in checked.out) == (1, True)

    shutil.copytree(live / DIRECTORY, again / DIRECTORY)
    assert trainfare("upgrade", "check", "--data", again).code == 0


@pytest.mark.parametrize(
    ("log", "lacks"),
    [
        (ON_DISK, True),
        (log_name(KafkaSettings(), "MkU3OEVBNTcwNTJENDM2Qg"), False),
        ("replayed files", False),
        ("", False),
    ],
)
def test_only_a_log_on_disk_is_missed(log: str, lacks: bool, tmp_path: Path) -> None:
    assert lacks_log(tmp_path, log) is lacks
    (tmp_path / DIRECTORY).mkdir()
    assert not lacks_log(tmp_path, log)
