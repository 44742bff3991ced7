"""The module that wraps the JIT: its options, its fallback, and that a warm process compiles nothing more."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streams.engine.kernels
from schemas.events import GpuEvent
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.fold_result import UsagePiece
from streams.engine.coverage.ids import SeenIds, identities128
from streams.engine.coverage.shapes import Shapes
from streams.engine.kernels import _compiler, _shipped
from streams.engine.kernels.warm import compile_all
from tests.engine.coverage.shape_twin import checked

compiled_only = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="the JIT is off")


def kernels() -> dict[str, Any]:
    """Every compiled function under its name."""
    found = {}
    for module in pkgutil.iter_modules(streams.engine.kernels.__path__):
        namespace = vars(importlib.import_module(f"streams.engine.kernels.{module.name}"))
        found.update({name: value for name, value in namespace.items() if hasattr(value, "signatures")})
    return found


def use_everything() -> None:
    """The usage classes with every feature."""
    plain: dict[str, Any] = {"source": "x", "id": "", "node": "n", "attempt": 1, "interval_ms": 2000}
    full: dict[str, Any] = {
        "sm_ratio": [0.5],
        "tensor_ratio": [0.5],
        "memory_used_mib": [1.0],
        "power_w": [1.0],
    }
    coverage = Coverage(5)
    coverage.fold([GpuEvent(**plain, job_id="j", time_ms=60_000, gpus=["g"], util_ratio=[0.5])])
    coverage.export_dirty(coverage.holders())
    coverage.fold([GpuEvent(**plain, job_id="j", time_ms=90_000, gpus=["g"], util_ratio=[0.5], **full)])
    other = Coverage(9)
    other.apply(coverage.export_dirty(coverage.holders()))
    coverage.fold([])
    coverage.rows_of(coverage.holders_of("j", 1))
    coverage.counts(coverage.minute_rows("j", 1, 1))
    coverage.add_usage([UsagePiece("j", 1, 0, 2, 0)], np.zeros((1, 4), np.int64), 0)
    coverage.recent_usage(["j"], 0, 2, np.full(1, 0.2))
    archived = coverage.export(["j"])
    coverage.drop_counts("j", 1)
    coverage.usage(coverage.drain_dirty())
    coverage.forget(["j"])
    coverage._names.compact()
    coverage.adopt(archived)
    coverage.apply(Coverage(5).export_dirty())
    pack_and_unpack(plain)
    seen = SeenIds(1)
    seen.add(*identities128(["a", "b"]), 0)
    SeenIds.restore(1, [seen.export()]).add(*identities128([str(k) for k in range(2000)]), 5)
    message = b'{"source":"x","node":"n","time_ms":946684800000,"interval_ms":1,"gpu":"g","util_ratio":%b}'
    assert checked(Shapes(), [message % b"1", message % b"2"]) == [True, False]
    assert checked(Shapes(), [message.replace(b"n", b"") % b"1"]) == [False]


def pack_and_unpack(plain: dict[str, Any]) -> None:
    """Old rows leave, are read by another process, and come back for a GPU that was not seen."""
    coverage, other = Coverage(5), Coverage(5)
    for time_ms, gpu in ((60_000, "g"), (60_000_000, "g"), (60_000, "h")):
        held = coverage.packed_bytes
        coverage.fold([GpuEvent(**plain, job_id="j", time_ms=time_ms, gpus=[gpu], util_ratio=[0.5])])
        coverage.drain_dirty()
        other.apply(coverage.export_dirty(coverage.holders()))
    assert held > 0


def compiled_after_warming() -> list[str]:
    """The kernels that needed another signature than compile_all() gave them."""
    compile_all()
    before = {name: set(function.signatures) for name, function in kernels().items()}
    use_everything()
    return sorted(name for name, function in kernels().items() if set(function.signatures) != before[name])


@compiled_only
def test_a_warm_process_compiles_nothing_more() -> None:
    # In a process of its own: here, other tests have compiled all they need.
    code = "from tests.engine.kernels.test_jit import compiled_after_warming as f; print(f())"
    root = Path(streams.engine.kernels.__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


@compiled_only
def test_every_kernel_frees_the_gil_and_is_strict() -> None:
    for name, function in kernels().items():
        assert function.targetoptions["nogil"], name
        assert not function.targetoptions["fastmath"], name
        assert function.targetoptions["nopython"], name


@compiled_only
def test_a_kernel_that_allocates_does_not_compile() -> None:
    def allocate(size: int) -> int:
        return int(np.zeros(size).size)

    with pytest.raises(Exception, match=r"NRT|passed into the function"):
        _compiler.kernel(allocate)(3)


def test_another_source_means_another_cache(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("LIMIT = 1")
    before = _shipped.sources_digest(tmp_path)
    (tmp_path / "a.py").write_text("LIMIT = 2")
    assert _shipped.sources_digest(tmp_path) != before
    own = _shipped.sources_digest(Path(streams.engine.kernels.__file__).parent)
    assert own in vars(importlib.import_module("numba").config)["CACHE_DIR"]


@pytest.mark.parametrize(("mode", "cached"), [(0o700, True), (0o777, False), (0o1777, False), (0o770, False)])
def test_machine_code_that_others_could_have_written_is_not_run(
    tmp_path: Path, mode: int, cached: bool
) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(mode)
    done = subprocess.run(
        [sys.executable, "-c", "from streams.engine.kernels import _compiler; print(_compiler._CACHED)"],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
        cwd=Path(streams.engine.kernels.__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(cached)
    assert ("may be written by other users" in done.stderr) == (not cached)


def test_only_the_door_imports_numba() -> None:
    root = Path(streams.engine.kernels.__file__).parents[2]
    importers = [
        path.name
        for path in root.rglob("*.py")
        if re.search(r"^\s*(import|from) numba", path.read_text(), re.M)
    ]
    assert importers == ["_compiler.py"]


def test_without_a_place_for_the_cache_it_compiles_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def njit(*, cache: bool, **_: object) -> Any:
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'f': no locator available for file 'x.py'")
        return lambda function: function

    monkeypatch.setattr("streams.engine.kernels._compiler.numba.njit", njit)
    assert _compiler.kernel(time.sleep) is time.sleep
    assert asked == [True, False]


def test_another_fault_of_the_compiler_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def njit(**_: object) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("streams.engine.kernels._compiler.numba.njit", njit)
    with pytest.raises(RuntimeError, match="out of memory"):
        _compiler.kernel(time.sleep)
