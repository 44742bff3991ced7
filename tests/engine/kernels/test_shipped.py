"""Machine code of a wheel is used where it is of these sources; where nothing can compile, a sentence says so."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streams.engine.kernels import _shipped
from streams.engine.kernels._shipped import digest_of_all, functions
from tests.meta.tree import ROOT

_NAME = "planted_machine_code"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An extension module with two kernels, the second for two sets of types."""
    started: list[Any] = []
    found = SimpleNamespace(
        SOURCES=digest_of_all(),
        TYPES=("'<i8'", "[('a', '<i4'), ('', '|V4')]"),
        FUNCTIONS={"one": (len,), "two": (len, abs)},
        start=started.extend,
        started=started,
    )
    monkeypatch.setitem(sys.modules, _NAME, found)
    return found


def test_the_types_of_arrays_are_those_of_numpy(machine: SimpleNamespace) -> None:
    assert functions(_NAME) is not None
    plain, record = machine.started
    assert plain == np.dtype(np.int64)
    assert record == np.dtype({"names": ["a"], "formats": ["<i4"], "offsets": [0], "itemsize": 8})


def test_the_function_that_takes_the_types_is_called(machine: SimpleNamespace) -> None:
    found = functions(_NAME)
    assert found is not None
    assert found["one"] is len
    assert (found["two"]([1, 2]), found["two"](-5)) == (2, 5)
    with pytest.raises(TypeError):
        found["two"](None)


def test_machine_code_of_other_sources_is_left_alone(machine: SimpleNamespace) -> None:
    machine.SOURCES = "0" * 16
    assert functions(_NAME) is None
    assert not machine.started


def test_an_installation_without_machine_code_has_none() -> None:
    assert functions("streams.engine.kernels.there_is_none") is None


def test_every_kernel_outside_of_the_folder_counts(tmp_path: Any) -> None:
    """A file that marks a kernel and is not part of the digest could run machine code of its former self."""
    folder = ROOT / "streams/engine/kernels"
    marking = {
        path
        for path in (ROOT / "streams").rglob("*.py")
        if "kernels._jit import" in (text := path.read_text())
        and ("helper" in text or "import kernel" in text)
    }
    assert {path for path in marking if path.parent != folder} == set(_shipped._OTHERS)


def test_without_a_compiler_a_command_says_what_to_install() -> None:
    code = f"import sys; sys.modules['numba'] = sys.modules[{_shipped.MODULE!r}] = None\nfrom streams.cli.main import main; main(['worker'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    *_, last = done.stderr.splitlines()
    assert last == (
        "trainfare: the kernels are not compiled for this platform, and what compiles them is not installed: "
        "pip install 'trainfare[jit]'"
    )
    assert "Traceback" not in done.stderr
