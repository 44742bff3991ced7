"""Machine code as a wheel has it: kernels give what the JIT gives, refuse what they do not take, and need no Numba."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.build_dist import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
_FOLDERS = ("deploy", "schemas", "sinks", "streams", "tests", "sdk", "loadtest", "examples")
#: In the copy: imports all kernels and calls each.
_ALL = (
    "import sys; from streams.engine.kernels import _jit, warm; assert _jit.are_compiled(); warm.compile_all();"
    "from streams.collect.dcgm.text import TextReader;"
    "print(*sorted({'numba', 'llvmlite'} & set(sys.modules)))"
)
_REFUSALS = """
import numpy as np
from streams.engine.kernels.idset import insert_ids
from streams.engine.kernels.murmur import murmur2
key, table, state = np.ones(1, np.uint64), np.zeros(4, np.uint64), np.zeros(2, np.int64)
frozen = table.copy()
frozen.flags.writeable = False
for given in (
    (key, key, table, table, state.astype(np.int32)),
    (key, key, table, frozen, state),
    (key, key, table, np.zeros((2, 2), np.uint64), state),
    (key, key, table, np.zeros(8, np.uint64)[::2], state),
    (key, key, table, table),
    (key, key, table, table, None),
):
    try:
        insert_ids(*given)
    except (TypeError, ValueError, BufferError):  # the last two are what NumPy says of its buffers
        print("refused")
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout with machine code beside its sources, as in a wheel."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: apt-get install gcc libc6-dev")
    root = tmp_path_factory.mktemp("installed")
    for name in _FOLDERS:
        shutil.copytree(
            ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
        )
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, root / name)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "946684800"}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "made", "--build-temp", "built"]
    subprocess.run(command, cwd=root, env=environment, check=True)
    (machine,) = (root / "made").rglob("_machine.abi3.so")
    shutil.copy(machine, root / "streams/engine/kernels")
    return root


def _python(copy: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    return subprocess.run([sys.executable, *words], cwd=copy, env=environment, capture_output=True, text=True)


def test_all_kernels_run_without_numba(copy: Path) -> None:
    done = _python(copy, "-c", _ALL)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_the_tests_of_the_kernels_pass_on_machine_code(copy: Path) -> None:
    """Each against its twin in plain Python, as with the JIT."""
    # These are about the JIT itself.
    others = [f"--deselect=tests/engine/kernels/{name}" for name in ("test_jit.py", "test_shipped.py")]
    done = _python(
        copy,
        "-m",
        "pytest",
        "-q",
        "-m",
        "",
        "-n",
        "2",
        *others,
        "tests/engine/kernels",
        "tests/engine/coverage",
    )
    assert done.returncode == 0, done.stdout[-4000:]


def test_other_types_are_refused(copy: Path) -> None:
    """Read as what it is not, an array would be money made of other bits, or memory that is not its own."""
    done = _python(copy, "-c", _REFUSALS)
    assert done.stdout.split() == ["refused"] * 6, done.stderr


def test_it_needs_no_newer_system_than_its_wheel_may_meet(copy: Path) -> None:
    """No symbol of glibc after 2.17, nothing of Numba's, and no word of where it was built."""
    code = (copy / "streams/engine/kernels/_machine.abi3.so").read_bytes()
    assert str(copy).encode() not in code
    listed = subprocess.run(
        ["objdump", "-T", "streams/engine/kernels/_machine.abi3.so"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    wanted = [line.split() for line in listed.splitlines() if "*UND*" in line]
    versions = {
        word.strip("()") for line in wanted for word in line if word.startswith(("GLIBC_", "(GLIBC_"))
    }
    assert versions
    assert all(tuple(map(int, each.removeprefix("GLIBC_").split("."))) <= (2, 17) for each in versions), (
        versions
    )
    assert not [line[-1] for line in wanted if line[-1].startswith(("NRT_", "numba"))]
