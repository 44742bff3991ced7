"""Where the key of the canary's proofs comes from: the setting, or a private file that the worker makes once."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from pydantic import SecretStr

from sinks.errors import SinkError
from streams.config.live import CanarySettings
from streams.config.settings import ClickHouseSettings, Settings
from streams.selfcheck.canary.key import FILE_NAME, canary_proof

KEY = "k" * 32


def of(data_dir: Path | None, *, enabled: bool = True, key: str | None = None) -> Settings:
    secret = None if key is None else SecretStr(key)
    return Settings(
        clickhouse=ClickHouseSettings(data_dir=data_dir), canary=CanarySettings(enabled=enabled, key=secret)
    )


def test_the_setting_counts_first_and_there_is_none_on_a_server_without_it(tmp_path: Path) -> None:
    found = canary_proof(of(tmp_path, key=KEY), make=True)
    assert found is not None
    assert found.key == KEY.encode()
    assert not list(tmp_path.iterdir())
    assert canary_proof(of(None), make=True) is None


def test_the_worker_makes_a_file_once_that_nobody_else_can_read(tmp_path: Path) -> None:
    assert canary_proof(of(tmp_path)) is None, "a command makes none"
    assert canary_proof(of(tmp_path, enabled=False), make=True) is None
    first = canary_proof(of(tmp_path), make=True)
    assert first is not None
    assert len(first.key) == 64
    assert stat.S_IMODE((tmp_path / FILE_NAME).stat().st_mode) == 0o600
    assert canary_proof(of(tmp_path), make=True) == canary_proof(of(tmp_path, enabled=False)) == first
    assert first.key.decode() not in repr(first)


def test_a_file_that_cannot_be_trusted_is_refused(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_text("short\n")
    path.chmod(0o600)
    with pytest.raises(SinkError, match="holds no key"):
        canary_proof(of(tmp_path))
    path.write_text(KEY)
    path.chmod(0o622)
    with pytest.raises(SinkError, match="may be written by other users"):
        canary_proof(of(tmp_path))
