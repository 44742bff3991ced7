"""Every patch still fits what it replaces: a worker that ends at once would pass for one that was found out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from streams.worker.shard_manager import ShardManager
from tests.chaos import patched


def test_a_command_with_every_patch_begins() -> None:
    command = [sys.executable, "-m", "tests.chaos.patched", ",".join(patched.PATCHES), "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_patch_that_takes_other_arguments_is_refused() -> None:
    async def take(self: ShardManager, batch: object) -> None:
        raise NotImplementedError

    with pytest.raises(AssertionError, match="a worker would end"):
        patched._set(ShardManager, "ingest_batches", take)
    assert ShardManager.ingest_batches is patched._take


def test_a_patch_of_what_is_gone_is_refused() -> None:
    with pytest.raises(AssertionError, match="is gone"):
        patched._set(ShardManager, "took", print)
