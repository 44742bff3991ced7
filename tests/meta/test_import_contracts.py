"""import-linter's contracts hold, and each one fires on a planted violation."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.meta.tree import ROOT

PACKAGES = ("schemas", "sinks", "streams", "tests")

#: Contract -> the plants (file and line) that break it. Those at one place of their tuples are planted together: a
#: module without a layer hides other faults of its contract.
PLANTED: dict[str, tuple[tuple[str, str], ...]] = {
    "Import order of the distribution, low to high": (("schemas/planted.py", "import sinks"),),
    "Import order inside streams; a new package must find its place here": (("streams/homeless.py", ""),),
    "Import order inside the engine; a new package must find its place here": (
        ("streams/engine/state/planted_upward.py", "import streams.engine.shard.state"),
        ("streams/engine/homeless.py", ""),
    ),
    "Import order inside the worker; a new package must find its place here": (
        ("streams/worker/shards/planted_upward.py", "import streams.worker.storing.checkpointer"),
        ("streams/worker/homeless.py", ""),
    ),
    "Import order inside the settings: their models know neither files nor the environment": (
        ("streams/config/homeless.py", ""),
    ),
    "A replay loads neither the page nor what wires a worker: half a second of a core": (
        ("streams/replay/planted_page.py", "import streams.web.server"),
    ),
    "Only transport imports faust": (("streams/worker/planted_faust.py", "from faust.types import TP"),),
    "Only transport and the broker import aiokafka": (
        ("streams/worker/planted_aiokafka.py", "import aiokafka"),
    ),
    "The core does no I/O and reads no clock": (("streams/engine/kernels/planted_clock.py", "import time"),),
    "The segmented log knows files and bytes: no network, no settings, no events": (
        ("streams/segmented_log/planted.py", "import schemas"),
    ),
    "Only engine.kernels._compiler imports numba": (("streams/engine/coverage/planted.py", "import numba"),),
    "The core imports neither sinks nor settings from the environment": (
        ("streams/engine/state/planted_sinks.py", "import sinks"),
    ),
    "The oracle imports nothing of the product, and computes in plain Python": (
        ("tests/oracle/planted.py", "import tests.harness"),
    ),
    "Settings are resolved only in the outermost layers": (
        ("sinks/planted_settings.py", "import streams.config.load"),
    ),
}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the packages in which violations may be planted."""
    root = tmp_path_factory.mktemp("checkout")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__", "*.nb?"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def lint(root: Path) -> subprocess.CompletedProcess[str]:
    command = shutil.which("lint-imports", path=str(Path(sys.executable).parent)) or "lint-imports"
    env = {**os.environ, "PYTHONPATH": str(root), "COLUMNS": "1000"}
    return subprocess.run(
        [command, "--no-logo", "--no-cache"], cwd=root, env=env, capture_output=True, text=True
    )


def test_contracts_hold(copy: Path) -> None:
    done = lint(copy)
    assert done.returncode == 0, done.stdout


def test_every_contract_has_a_planted_violation() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    assert {each["name"] for each in contracts} == set(PLANTED)


def test_every_directory_of_tests_is_a_package() -> None:
    """Of others import-linter sees no import."""
    directories = {path.parent for path in (ROOT / "tests").rglob("*.py")}
    assert sorted(each for each in directories if not (each / "__init__.py").exists()) == []


@pytest.mark.parametrize(
    "line", ["import streams.engine.pricing", "import sinks", "import schemas.events", "import numpy"]
)
def test_an_oracle_that_looks_at_what_it_judges_is_found_out(copy: Path, line: str) -> None:
    """Also where a module between them is what looks."""
    planted = [copy / "tests/strategies/planted.py", copy / "tests/oracle/planted.py"]
    planted[0].write_text(f"{line}\n")
    planted[1].write_text("import tests.strategies.planted\n")
    try:
        done = lint(copy)
    finally:
        for each in planted:
            each.unlink()
    assert done.returncode != 0
    assert "The oracle imports nothing of the product, and computes in plain Python BROKEN" in done.stdout


@pytest.fixture(scope="module")
def reports(copy: Path) -> list[dict[str, str]]:
    """Return the faults of each contract, once per round of plants: most of the time goes into the graph of imports."""
    found = []
    for place in range(max(map(len, PLANTED.values()))):
        plants = [plants[place] for plants in PLANTED.values() if place < len(plants)]
        for name, line in plants:
            assert not (copy / name).exists()
            (copy / name).write_text(f"{line}\n")
        try:
            done = lint(copy)
        finally:
            for name, _ in plants:
                (copy / name).unlink()
        assert done.returncode != 0
        found.append(faults_by_contract(done.stdout))
    return found


def faults_by_contract(report: str) -> dict[str, str]:
    """Return the part of import-linter's report on each broken contract, which begins with its underlined name."""
    _, _, broken = report.partition("Broken contracts")
    parts = re.split(r"^(.+)\n-+$", broken, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize(
    ("contract", "place"), [(name, place) for name, plants in PLANTED.items() for place in range(len(plants))]
)
def test_contract_fires(reports: list[dict[str, str]], contract: str, place: int) -> None:
    planted = Path(PLANTED[contract][place][0]).with_suffix("")
    assert re.search(rf"\b{planted.name}\b", reports[place].get(contract, "")), reports[place].keys()
