"""docker-compose.yml by the parser of `docker compose` itself, with the passwords that are made at the first start."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.make_secrets import NAMES, make
from deploy.pin_images import images_of
from tests.go_tools import compose_parser, go
from tests.meta.tree import ROOT

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1_800),  # the first time the parser is compiled
    pytest.mark.skipif(go() is None, reason="no `go` on the PATH, which builds the parser"),
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A checkout as far as Compose reads it, with passwords."""
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    (tmp_path / "deploy").mkdir()
    make(tmp_path / "deploy/secrets")
    return tmp_path


def parsed(site: Path, **images: str) -> subprocess.CompletedProcess[str]:
    named = {name: f"{image}@sha256:{'0' * 64}" for name, image in images_of(ROOT).items()}
    return subprocess.run(
        [str(compose_parser()), "docker-compose.yml"],
        cwd=site, env={"PATH": os.environ["PATH"], **named, **images}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip


def test_it_is_taken_and_every_secret_is_a_file_that_was_made(site: Path) -> None:
    done = parsed(site)
    assert done.returncode == 0, done.stderr
    model: dict[str, Any] = yaml.safe_load(done.stdout)
    files = {name: Path(each["file"]) for name, each in model["secrets"].items()}
    assert files == {name: site / "deploy/secrets" / name for name in NAMES}
    assert stat.S_IMODE((site / "deploy/secrets").stat().st_mode) == 0o700
    for path in files.values():
        assert len(path.read_text()) >= 32
        assert path.read_text() not in done.stdout
    assert len({path.read_text() for path in files.values()}) == len(files), "each has one of its own"
    for name, service in model["services"].items():
        for each in service.get("secrets", []):
            assert each["source"] in files, name
        for volume in service.get("volumes", []):
            if volume["type"] == "bind":
                assert Path(volume["source"]).is_relative_to(site), name


def test_without_digests_nothing_starts(site: Path) -> None:
    done = parsed(site, KAFKA_IMAGE="")
    assert done.returncode != 0
    assert "run make pin" in done.stdout + done.stderr


def test_a_misspelt_word_is_a_fault(site: Path) -> None:
    file = site / "docker-compose.yml"
    file.write_text(file.read_text().replace("    read_only: true", "    readonly: true").replace("  read_only: true", "  readonly: true"))  # fmt: skip
    done = parsed(site)
    assert done.returncode != 0
    assert "readonly" in done.stdout + done.stderr
