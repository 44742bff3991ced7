"""A first start says how far it is with compiling; any other says nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from streams.cli.kernels import compile_kernels
from streams.engine.kernels import _jit, warm

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


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    called: list[int] = []
    monkeypatch.setattr(warm, "GROUPS", [lambda: called.append(1), lambda: called.append(2)])
    return called


def test_a_first_start_says_how_far_it_is(
    groups: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_jit, "are_compiled", lambda: False)
    compile_kernels()
    assert groups == [1, 2]
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
    monkeypatch.setattr(_jit, "_cache_dir", lambda: tmp_path)
    monkeypatch.setattr(_jit, "_CACHED", True)
    assert not _jit.are_compiled()
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "judge._find.nbi").touch()
    assert _jit.are_compiled()


@pytest.mark.long
def test_rules_are_compiled_for_one_set_of_types(tmp_path: Path) -> None:
    """Constants as arguments have types of their own: they took the judge from 10 to 40 s of a first start."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    tmp_path.chmod(0o700)
    done = subprocess.run(
        [sys.executable, "-c", COUNTED], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["reaches_ratios 2"]
