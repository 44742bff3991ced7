"""A release as whoever installs it gets it: built twice to the same bytes, installed into fresh environments, and run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.forked import without_settings
from tests.meta.tree import ROOT, tracked

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
_AT: Final = "1780000000"
#: What docs/install.md promises.
_MOST_MB: Final = 450
_DOLLARS: Final = "21869.781929414"


def _built(checkout: Path, out: Path) -> dict[str, str]:
    """The digests of the files of one build, by name."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": _AT}
    command = [sys.executable, "-m", "deploy.build_dist", str(out)]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(out.iterdir())}


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a release, of a copy of the checkout."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler: apt-get install gcc libc6-dev")
    folder = tmp_path_factory.mktemp("release")
    _built(_copied(folder / "checkout"), folder / "dist")
    return folder / "dist"


@pytest.fixture(scope="module")
def another(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second copy of the checkout, made before the first is built: that takes minutes, and files may change meanwhile."""
    return _copied(tmp_path_factory.mktemp("second") / "another" / "checkout")


def _copied(checkout: Path) -> Path:
    for path in tracked():
        to = checkout / path.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return checkout


def _environment(folder: Path, *wanted: str) -> Path:
    """A fresh environment with packages; its `bin`."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    done = subprocess.run(
        [folder / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted],
        capture_output=True,
        text=True,
    )
    if done.returncode and "Connection" in done.stderr:
        pytest.skip(f"no package registry is reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("trainfare-*.whl")
    return found


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _environment(tmp_path_factory.mktemp("plain") / "env", str(wheel))


@pytest.fixture(scope="module")
def embedded(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _environment(tmp_path_factory.mktemp("embedded") / "env", f"{wheel}[embedded]")


def _outside() -> dict[str, str]:
    """Our environment without settings of the meter, and without the checkout."""
    return {name: value for name, value in without_settings().items() if name != "PYTHONPATH"}


def _run(bin_: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [bin_ / words[0], *words[1:]], cwd=cwd, env=_outside(), capture_output=True, text=True
    )


def _megabytes(folder: Path) -> float:
    counted = subprocess.run(
        ["du", "-s", "--block-size=1", folder], capture_output=True, text=True, check=True
    )
    return int(counted.stdout.split()[0]) / 1e6


def test_a_second_build_elsewhere_has_the_same_bytes(another: Path, dist: Path, tmp_path: Path) -> None:
    first = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(dist.iterdir())}
    assert _built(another, tmp_path / "dist") == first
    assert len(first) == 4, "an sdist and a wheel, each of trainfare and of the SDK"


def test_trainfare_without_extras_is_small_and_has_neither_compiler_nor_engine(
    plain: Path, tmp_path: Path
) -> None:
    assert _megabytes(plain.parent) < _MOST_MB
    program = "import importlib.util as u; print([n for n in ('numba', 'llvmlite', 'chdb', 'pandas') if u.find_spec(n)])"
    assert _run(plain, "python", "-c", program, cwd=tmp_path).stdout.strip() == "[]"


def test_its_kernels_are_machine_code(plain: Path, tmp_path: Path) -> None:
    program = "from streams.engine.kernels import _jit, warm; warm.compile_all(); print(_jit.are_compiled())"
    done = _run(plain, "python", "-c", program, cwd=tmp_path)
    assert done.stdout.strip() == "True", done.stderr


def test_the_extra_meters_a_trace_to_the_nano_dollar(embedded: Path, tmp_path: Path) -> None:
    trace = str(ROOT / "examples/helios-500.jsonl.gz")
    done = _run(embedded, "trainfare", "replay", trace, "--data", "meter", "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert _DOLLARS in done.stdout
    assert "compiling" not in done.stderr
    asked = _run(
        embedded,
        "trainfare",
        "sql",
        "SELECT sum(cost_usd) AS usd FROM job_costs",
        "--data",
        "meter",
        "--format",
        "json",
        cwd=tmp_path,
    )
    assert _DOLLARS in asked.stdout, asked.stderr


def test_the_demo_runs_from_a_wheel_that_nobody_installed(wheel: Path, tmp_path: Path) -> None:
    """As `uvx --from 'trainfare[embedded]' trainfare demo`, which has no `make` before it."""
    uvx = ROOT / ".venv/bin/uvx"
    if not uvx.exists():
        pytest.skip("no uv: make .venv")
    words: list[str | Path] = [
        uvx,
        "--python",
        sys.executable,
        "--from",
        f"{wheel}[embedded]",
        "trainfare",
        "demo",
    ]
    words += ["--seconds", "30", "--no-browser", "--port", "0"]
    done = subprocess.run(words, cwd=tmp_path, env=_outside(), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "page: http://127.0.0.1:" in done.stdout
    assert "burns" in done.stdout, "the demo's first page"
    assert "compiling" not in done.stdout + done.stderr


def test_the_sdk_needs_nothing_else(dist: Path, tmp_path: Path) -> None:
    (sdk,) = dist.glob("trainfare_sdk-*.whl")
    target = tmp_path / "target"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--target", str(target), str(sdk)]
    subprocess.run(command, check=True)
    assert _megabytes(target) < 1
    program = "import sys; sys.path.insert(0, sys.argv[1]); import trainfare; print(trainfare.__file__)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program, str(target)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(str(target))


def test_the_bill_of_materials_is_valid(embedded: Path, tmp_path: Path) -> None:
    """By the reader of those who wrote the format."""
    sbom = _run(embedded, "python", str(ROOT / "deploy/sbom.py"), cwd=tmp_path).stdout
    assert {"trainfare", "chdb-core"} <= {each["name"] for each in json.loads(sbom)["components"]}
    (tmp_path / "sbom.json").write_text(sbom)
    reader = _environment(tmp_path / "reader", "cyclonedx-python-lib[json-validation]>=11")
    program = (
        "import sys; from cyclonedx.schema import SchemaVersion; from cyclonedx.validation.json import JsonStrictValidator;"
        "print(JsonStrictValidator(SchemaVersion.V1_6).validate_str(open('sbom.json').read()))"
    )
    done = _run(reader, "python", "-c", program, cwd=tmp_path)
    assert done.stdout.strip() == "None", done.stdout + done.stderr
