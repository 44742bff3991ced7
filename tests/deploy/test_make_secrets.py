"""Secrets of the compose file: random, for this user alone, made once, and never shown."""

from __future__ import annotations

import hashlib
import stat
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deploy.make_secrets import FOLDER, NAMES, READERS, USERS_FILE, main, make
from sinks.errors import SinkError
from tests.meta.tree import ROOT


def test_every_secret_is_random_and_behind_a_folder_of_this_user(tmp_path: Path) -> None:
    assert make(tmp_path / "secrets") == list(NAMES)
    make(tmp_path / "others")
    values = [(tmp_path / folder / name).read_text() for folder in ("secrets", "others") for name in NAMES]
    assert len(set(values)) == 2 * len(NAMES)
    assert min(map(len, values)) >= 43, "256 bits"
    assert stat.S_IMODE((tmp_path / "secrets").stat().st_mode) == 0o700
    for path in (tmp_path / "secrets").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o444, "services of other users read it; none writes it"


def test_what_is_there_stays_and_only_what_is_missing_is_made(tmp_path: Path) -> None:
    make(tmp_path)
    before = {path.name: path.read_text() for path in tmp_path.iterdir()}
    (tmp_path / NAMES[0]).unlink()
    assert make(tmp_path) == [NAMES[0]]
    after = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {name for name in after if after[name] != before[name]} == {NAMES[0]}


def test_clickhouse_is_given_the_hashes_of_the_readers_passwords(tmp_path: Path) -> None:
    make(tmp_path)
    users = ElementTree.parse(tmp_path / USERS_FILE).getroot()
    for user, name in READERS.items():
        password = (tmp_path / name).read_bytes()
        assert users.findtext(f"users/{user}/password_sha256_hex") == hashlib.sha256(password).hexdigest()
        assert password.decode() not in (tmp_path / USERS_FILE).read_text()


def test_nothing_secret_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(tmp_path) == 0
    out = capsys.readouterr().out
    assert "web_token" in out
    assert not [name for name in NAMES if (tmp_path / name).read_text() in out]
    assert main(tmp_path) == 0
    assert capsys.readouterr().out == ""


def test_a_planted_link_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "known").write_text("known to the attacker")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "web_token").symlink_to(tmp_path / "known")
    with pytest.raises(SinkError, match="web_token is a link"):
        make(tmp_path / "secrets")
    assert main(tmp_path / "secrets") == 1
    assert capsys.readouterr().err.startswith("make_secrets: ")


def test_git_ignores_them() -> None:
    names = [str(FOLDER / name) for name in (*NAMES, USERS_FILE)]
    done = subprocess.run(["git", "check-ignore", *names], cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 128:
        pytest.skip(f"not a git checkout: {done.stderr.strip()}")
    assert done.stdout.split() == names


@pytest.mark.parametrize("module", ["deploy.make_secrets", "deploy.pin_images"])
def test_it_runs_before_anything_is_installed(module: str) -> None:
    """`make up` needs Python and Docker; -S leaves out what is installed."""
    subprocess.run([sys.executable, "-S", "-c", f"import {module}"], cwd=ROOT, check=True)
