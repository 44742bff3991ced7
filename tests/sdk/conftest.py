"""An endpoint for each test, and none of the settings of whoever runs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sdk.endpoint import FakeEndpoint

_PREFIXES = ("TRAINFARE_", "SLURM_", "TORCHELASTIC_", "OMPI_", "AWS_", "CUDA_", "NVIDIA_")
_NAMES = (
    "RANK",
    "LOCAL_RANK",
    "NODE_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "PMI_RANK",
    "NODE_NAME",
    "USER",
)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint().serving() as found:
        yield found


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of whoever runs the tests counts."""
    for name in list(os.environ):
        if name.startswith(_PREFIXES) or name in _NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("TRAINFARE_STATE_DIR", str(tmp_path / "state"))
