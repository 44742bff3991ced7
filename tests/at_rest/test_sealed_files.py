"""Secrets that a worker keeps in its data directory are sealed where there is a key, and opened by nobody without it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sinks.errors import SinkError
from sinks.target import Embedded
from streams.config.live import WebSettings
from streams.config.load import load_settings
from streams.costs.closing_key import ClosingSecrets, closing_key
from streams.sealed_files import read_secret, seal, write_secret
from streams.selfcheck.canary.key import canary_proof
from streams.web import local_token
from streams.web.local_access import LocalAccess

KEY = "what-seals-secrets-in-this-test-only"
OTHER = "another-key-that-this-worker-has-not"
SECRET = "a-secret-of-a-data-directory-of-32-and-more"
NAMES = ("token", "canary_key", "closing_key")


def made(name: str, folder: Path, keys: str | None) -> object:
    """What a worker makes of a file at its start, or when it first needs it; the same object is the same secret."""
    if name == "token":
        access = LocalAccess(WebSettings(), folder, keys)
        access.open("http://127.0.0.1:1")
        return access.token
    if name == "closing_key":
        found = closing_key(Embedded(data_dir=folder), ClosingSecrets(None, keys), may_make=True)
        assert found is not None
        return found.key_id
    given = {
        "TRAINFARE_CLICKHOUSE_DATA_DIR": str(folder),
        "TRAINFARE_CANARY_ENABLED": "true",
        **({} if keys is None else {"TRAINFARE_AT_REST_KEY": keys}),
    }
    return canary_proof(load_settings(given), make=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_sealed_and_the_same_after_a_restart(name: str, tmp_path: Path) -> None:
    first = made(name, tmp_path, KEY)
    content = (tmp_path / name).read_text()
    assert content.startswith("sealed:")
    assert name != "token" or str(first) not in content
    assert made(name, tmp_path, KEY) == first
    assert (tmp_path / name).read_text() == content


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_file_is_sealed_by_the_first_start_with_a_key_and_anew_by_another(
    name: str, tmp_path: Path
) -> None:
    first = made(name, tmp_path, None)
    assert not (tmp_path / name).read_text().startswith("sealed:")
    assert made(name, tmp_path, KEY) == first
    sealed = (tmp_path / name).read_text()
    assert made(name, tmp_path, f"{OTHER} {KEY}") == first
    assert (tmp_path / name).read_text() != sealed
    assert made(name, tmp_path, OTHER) == first


@pytest.mark.parametrize("name", NAMES)
def test_without_its_key_nothing_starts_and_the_file_stays(name: str, tmp_path: Path) -> None:
    made(name, tmp_path, KEY)
    content = (tmp_path / name).read_text()
    with pytest.raises(SinkError, match=r"sealed by the key .* set at_rest.key"):
        made(name, tmp_path, None)
    with pytest.raises(SinkError, match=r"sealed by the key .* which at_rest.key does not have"):
        made(name, tmp_path, OTHER)
    assert (tmp_path / name).read_text() == content


def test_a_secret_is_sealed_and_opened_by_its_key_alone(tmp_path: Path) -> None:
    write_secret(tmp_path / "token", SECRET, KEY)
    assert SECRET not in (tmp_path / "token").read_text()
    assert read_secret(tmp_path / "token", f"{OTHER}\n{KEY}") == SECRET


@pytest.mark.parametrize(
    "alter",
    [
        lambda text: text[:-2] + ("A" if text[-2] != "A" else "B") + "\n",
        lambda text: text[:40] + "\n",
        lambda text: text.replace(":", ";", 2),
    ],
)
def test_what_was_altered_is_no_secret(alter: Callable[[str], str], tmp_path: Path) -> None:
    path = tmp_path / "token"
    write_secret(path, SECRET, KEY)
    path.write_text(alter(path.read_text()))
    with pytest.raises(SinkError):
        local_token.read(tmp_path, KEY)


def test_a_sealed_file_under_another_name_is_not_opened(tmp_path: Path) -> None:
    write_secret(tmp_path / "canary_key", SECRET, KEY)
    (tmp_path / "canary_key").rename(tmp_path / "token")
    with pytest.raises(SinkError, match="altered"):
        read_secret(tmp_path / "token", KEY)


def test_without_a_key_a_file_stays_as_it_is(tmp_path: Path) -> None:
    write_secret(tmp_path / "token", SECRET, None)
    before = (tmp_path / "token").stat().st_mtime_ns
    seal(tmp_path / "token", SECRET, None)
    assert (tmp_path / "token").stat().st_mtime_ns == before
