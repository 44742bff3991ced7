"""A first start says how far it is with compiling; any other says nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.cli import kernels
from streams.cli.kernels import compile_kernels
from streams.engine.kernels import _compiler, _jit, warm

ROOT = Path(__file__).resolve().parents[2]
#: What is compiled of a fresh cache, each with the number of sets of types that it was compiled for.
COUNTED = """
from streams.engine.kernels import conditions, judge, warm
warm._warm_rules()
for module in (conditions, judge):
    for name, each in vars(module).items():
        if hasattr(each, "signatures") and each.__module__ == module.__name__ and len(each.signatures) > 1:
            print(name, len(each.signatures))
"""
#: A first start on so many cores; how many processes it took.
FIRST_START = """
import os, subprocess
os.cpu_count = lambda: {cores}
begun, popen = [1], subprocess.Popen
subprocess.Popen = lambda *a, **k: (begun.append(1), popen(*a, **k))[1]
from streams.cli import kernels
from streams.cli.kernels import compile_kernels
compile_kernels()
print(len(begun))
"""
#: How many of the kernels that are compiled beside are not in the cache.
MISSES = """
from streams.engine.kernels import gpu_json, coverage, warm
for group in warm.OTHER_HALF:
    group()
print(sum(sum(each.stats.cache_misses.values()) for each in (gpu_json.parse_gpu, coverage.fold_samples) if hasattr(each, "stats")))
"""


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    called: list[int] = []
    monkeypatch.setattr(warm, "GROUPS", [lambda: called.append(1), lambda: called.append(2)])
    monkeypatch.setattr(_compiler, "_CACHED", False)
    return called


def test_a_first_start_says_how_far_it_is(
    groups: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_jit, "are_compiled", lambda: False)
    compile_kernels()
    assert groups == [1, 2, 1, 2]  # what was compiled is loaded again, in no time
    assert capsys.readouterr().err.splitlines() == [
        "compiling the kernels, once: 1 of 2",
        "compiling the kernels, once: 2 of 2",
    ]


def test_any_other_start_says_nothing(
    groups: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_jit, "are_compiled", lambda: True)
    compile_kernels()
    assert (groups, capsys.readouterr().err) == ([1, 2], "")


def test_kernels_are_compiled_where_their_cache_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_compiler, "_cache_dir", lambda: tmp_path)
    monkeypatch.setattr(_compiler, "_CACHED", True)
    assert not _jit.are_compiled()
    (tmp_path / "gpu_keys._cell.nbi").touch()  # the import of a kernel may compile one
    assert not _jit.are_compiled()
    _jit.mark_compiled()
    assert _jit.are_compiled()


@pytest.mark.long
@pytest.mark.parametrize("cores", [1, 2])
def test_what_another_process_compiles_is_found_in_the_cache(tmp_path: Path, cores: int) -> None:
    """With one core nothing is compiled beside, and all is compiled as well."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    first = FIRST_START.format(cores=cores)
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True
        )
        for code in (first, MISSES)
    ]
    assert [run.stdout.split() for run in runs] == [["1"] if cores == 1 else ["2"], ["0"]]


@pytest.mark.long
def test_rules_are_compiled_for_one_set_of_types(tmp_path: Path) -> None:
    """Constants as arguments have types of their own: they took the judge from 10 to 40 s of a first start."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["reaches_ratios 2"]


BESIDE = """
import sys, time
print("compiling: 1 of 2", file=sys.stderr, flush=True)
time.sleep({seconds})
print("compiling: 2 of 2", file=sys.stderr)
"""


def test_what_compiles_beside_is_shown_once_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kernels, "_COMMAND", [sys.executable, "-c", BESIDE.format(seconds=0)])
    with kernels.compiled_beside(is_wanted=True) as finish:
        assert capsys.readouterr().err == "", "questions are asked meanwhile"
        finish()
    assert capsys.readouterr().err.splitlines() == ["compiling: 1 of 2", "compiling: 2 of 2"]
    with kernels.compiled_beside(is_wanted=False) as finish:
        finish()
    assert capsys.readouterr().err == ""


def test_what_compiles_beside_ends_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_COMMAND", [sys.executable, "-c", BESIDE.format(seconds=3_600)])
    with pytest.raises(KeyboardInterrupt), kernels.compiled_beside(is_wanted=True):
        raise KeyboardInterrupt
