"""What a wheel has compiled is what `warm` calls: no caller may bring other types, which the JIT alone would take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from streams.engine.kernels import _shipped
from tests.meta.tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

#: Prints the kernels that were called with types for which `warm` had not compiled them.
_PROGRAM = """
import importlib, logging, pkgutil, sys
from pathlib import Path
import streams.engine.kernels as package
from streams.engine.kernels.warm import compile_all

compile_all()
modules = [importlib.import_module(f"{package.__name__}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
kernels = {
    f"{module.__name__}.{name}": value
    for module in modules
    for name, value in vars(module).items()
    if hasattr(value, "signatures") and value.py_func.__module__ == module.__name__
}
known = {name: set(kernel.signatures) for name, kernel in kernels.items()}
assert len(known) > 40
exec(sys.argv[1])
print(*(f"other types: {name} {set(kernel.signatures) - known[name]}" for name, kernel in kernels.items() if set(kernel.signatures) - known[name]))
"""
_REPLAYS = """
from streams.cli.main import main
for place, log in enumerate(sorted(Path("EXAMPLES").rglob("*.jsonl*"))):
    try:
        main(["replay", str(log), "--data", f"WHERE/{place}"])
    except SystemExit as end:
        assert end.code == 0, (log, end.code)
"""
_SIMULATOR = """
from tests.simulator.run import run_seed
logging.disable(logging.CRITICAL)
for seed in range(6):
    assert not run_seed(seed, None).differences
"""
_ANOTHER = """
import numpy as np
from streams.engine.kernels.bill import _cost_nano
one = np.ones(1, np.int32)
_cost_nano(one, one, one, one)
"""


def _other_types(did: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, did], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith("other types")]


@pytest.mark.skipif(_shipped.functions() is not None, reason="machine code refuses other types itself")
@pytest.mark.parametrize("did", [_REPLAYS, _SIMULATOR], ids=["replays of the examples", "the simulator"])
def test_no_kernel_is_called_with_types_that_a_wheel_does_not_have(did: str, tmp_path: Path) -> None:
    assert _other_types(did.replace("EXAMPLES", str(ROOT / "examples")).replace("WHERE", str(tmp_path))) == []


@pytest.mark.skipif(_shipped.functions() is not None, reason="machine code refuses other types itself")
def test_a_call_with_other_types_is_found() -> None:
    (line,) = _other_types(_ANOTHER)
    assert "cost_nano" in line
