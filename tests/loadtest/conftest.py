"""Small trace files made by hand, and the real ones where this machine has them."""

from collections.abc import Callable
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def trace_file(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a text under a name and gives its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def real() -> Callable[[str], Path]:
    """A real data file by its path in the data folder; skips where it is absent."""

    def find(name: str) -> Path:
        path = DATA / name
        if not path.exists():
            pytest.skip(f"the public trace {name} is not on this machine")
        return path

    return find
