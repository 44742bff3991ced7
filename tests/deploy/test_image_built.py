"""The image, built of Debian's packages without a registry: what is in it, who runs, and that it meters and stops as it says."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kafka.broker import _free_ports
from tests.meta.tree import ROOT

_MISSING = [name for name in ("podman", "runc", "debootstrap") if shutil.which(name) is None]
_REASON = f"not installed: {', '.join(_MISSING)} (apt-get install podman runc debootstrap)"
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(bool(_MISSING), reason=_REASON),
    pytest.mark.skipif(os.geteuid() != 0, reason="debootstrap needs root"),
]
_BASE: Final = "localhost/python:debian"
_IMAGE: Final = "localhost/trainfare:test"
_DATA: Final = "/var/lib/trainfare/meter"


class Podman:
    """Podman with images of its own, which go with the folder."""

    def __init__(self, folder: Path) -> None:
        self.arguments = [
            "--root", str(folder / "images"), "--runroot", str(folder / "run"), "--storage-driver", "overlay",
            # crun refuses a machine with both kinds of control groups.
            "--runtime", shutil.which("runc") or "runc", "--cgroup-manager", "cgroupfs", "--events-backend", "none",
        ]  # fmt: skip

    def __call__(self, *words: str, timeout_s: float = 1800, **more: Any) -> subprocess.CompletedProcess[str]:
        command = ["podman", *self.arguments, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, **more)


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """Podman with the image; what TRAINFARE_IMAGES names is kept, so that a second run builds only what has changed."""
    kept = os.environ.get("TRAINFARE_IMAGES")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("podman")
    tool = Podman(folder)
    try:
        if tool("image", "exists", _BASE).returncode:
            based = subprocess.run(
                [ROOT / "deploy/base_image.sh", _BASE],
                env={**os.environ, "IMAGE_TOOL_ARGS": " ".join(tool.arguments)},
                capture_output=True,
                text=True,
            )
            assert based.returncode == 0, based.stderr[-3000:]
        revision = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True
        ).stdout.strip()
        certificates = "/etc/ssl/certs/ca-certificates.crt"
        built = tool(
            "build", "--format", "docker", "--layers", "--isolation", "chroot", "--network", "host",
            # Where a proxy of this network answers for the package registry, its certificate is among those of the machine.
            "--volume", f"{certificates}:{certificates}:ro",
            "--build-arg", f"PYTHON_IMAGE={_BASE}", "--build-arg", "VERSION=0.0.1", "--build-arg", f"REVISION={revision}",
            "--tag", _IMAGE, ".", cwd=ROOT,
        )  # fmt: skip
        assert built.returncode == 0, built.stdout[-3000:] + built.stderr[-3000:]
        yield tool
    finally:
        if not kept:
            tool("system", "reset", "--force")


def _inspected(podman: Podman) -> dict[str, Any]:
    (found,) = json.loads(podman("image", "inspect", _IMAGE).stdout)
    image: dict[str, Any] = found
    return image


def _in_image(podman: Podman, program: str) -> str:
    done = podman("run", "--rm", *_CONFINED, "--entrypoint", "python", _IMAGE, "-c", program)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


#: As docker-compose.yml and docs/releases.md run it. A container may not raise its limits where this machine may not.
_CONFINED: Final = (
    "--read-only", "--tmpfs", "/tmp:mode=1777", "--cap-drop", "all", "--security-opt", "no-new-privileges",
    "--health-interval", "disable", "--network", "host", "--ulimit", "nofile=16384:16384", "--ulimit", "nproc=4096:4096",
)  # fmt: skip


def test_the_image_says_what_it_is_and_how_it_runs(podman: Podman) -> None:
    image = _inspected(podman)
    config = image["Config"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["trainfare"]
    assert config["Labels"]["org.opencontainers.image.version"] == "0.0.1"
    assert len(config["Labels"]["org.opencontainers.image.revision"]) == 40
    assert "/healthz" in " ".join(image["Healthcheck"]["Test"])


def test_nobody_in_it_is_root_or_writes_to_it(podman: Podman) -> None:
    program = (
        "import os, pathlib\n"
        "def refused(path):\n"
        "    try:\n"
        "        pathlib.Path(path).write_text('x')\n"
        "    except OSError as fault:\n"
        "        return fault.strerror\n"
        "print(os.getuid(), refused('/opt/trainfare/x'), refused('/etc/passwd'), refused('/tmp/x'), sep=', ')"
    )
    assert _in_image(podman, program) in {
        "10001, Read-only file system, Read-only file system, None",
        "10001, Read-only file system, Permission denied, None",
    }


def test_it_has_machine_code_and_neither_installer_nor_compiler(podman: Podman) -> None:
    program = (
        "import importlib.util as u; from streams.engine.kernels import _jit, warm; warm.compile_all();"
        "print(_jit.are_compiled(), [n for n in ('pip', 'numba', 'llvmlite', 'setuptools') if u.find_spec(n)])"
    )
    assert _in_image(podman, program) == "True []"
    assert _in_image(podman, "import shutil; print(shutil.which('gcc'), shutil.which('cc'))") == "None None"


def test_its_bill_of_materials_names_what_is_in_it(podman: Podman) -> None:
    found = json.loads(_in_image(podman, "print(open('/opt/trainfare/sbom.cdx.json').read())"))
    names = {each["name"] for each in found["components"]}
    assert {"trainfare", "chdb-core", "pyarrow", "libc6", "python3-minimal"} <= names
    assert not {"numba", "gcc", "pip"} & names
    program = "import importlib.metadata as m; print(*sorted({d.metadata['Name'].lower().replace('_', '-') for d in m.distributions()}))"
    installed = _in_image(podman, program).split()
    listed = {each["name"] for each in found["components"] if each["purl"].startswith("pkg:pypi/")}
    assert {each.replace(".", "-") for each in installed} == listed


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("volume") / "meter"
    folder.mkdir(mode=0o700)
    os.chown(folder, 10001, 10001)
    return folder


@pytest.fixture(scope="module")
def command(podman: Podman, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program `trainfare` that runs the one of the image, with the directory of data where the host has it."""
    path = tmp_path_factory.mktemp("bin") / "trainfare"
    examples = ROOT / "examples"
    words = ["podman", *podman.arguments, "run", "--rm", *_CONFINED]
    words += ["--volume", f"{data}:{data}", "--volume", f"{examples}:{examples}:ro"]
    path.write_text(
        "#!/bin/bash\ngiven=()\nfor name in $(compgen -e | grep '^TRAINFARE_'); do given+=(--env \"$name\"); done\n"
        f'exec {shlex.join(words)} "${{given[@]}}" {_IMAGE} "$@"\n'
    )
    path.chmod(0o755)
    return path


def _asked(command: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**_without_settings(), **variables}
    return subprocess.run([command, *words], env=environment, capture_output=True, text=True, timeout=300)


def _without_settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("TRAINFARE_")}


def test_its_health_check_asks_the_meter(podman: Podman, tmp_path: Path) -> None:
    data = tmp_path / "meter"
    data.mkdir(mode=0o700)
    os.chown(data, 10001, 10001)
    (port,) = _free_ports(1)
    words = ["--name", "health", "--env", f"TRAINFARE_WEB_PORT={port}", "--volume", f"{data}:{data}"]
    started = podman("run", "--rm", "--detach", *_CONFINED, *words, _IMAGE, "serve", "--data", str(data))
    assert started.returncode == 0, started.stderr
    try:
        _wait_until(lambda: _answers(f"http://127.0.0.1:{port}/readyz"), within_s=300)
        assert podman("healthcheck", "run", "health").returncode == 0
    finally:
        podman("stop", "--time", "120", "health")
    assert podman("healthcheck", "run", "health").returncode != 0, "it has ended"


@contextmanager
def _serving(command: Path, data: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The meter in a container; at the end it is stopped as `docker stop` does it, and must end well."""
    (port,) = _free_ports(1)
    environment = {**_without_settings(), "TRAINFARE_WEB_PORT": str(port)}
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen(
        [command, "serve", "--data", str(data)], env=environment, stderr=subprocess.PIPE
    ) as running:
        try:
            _wait_until(lambda: _answers(f"{address}/readyz") or running.poll() is not None, within_s=300)
            assert running.poll() is None, running.stderr and running.stderr.read().decode()[-3000:]
            yield address, running
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(300)


def _wait_until(holds: Callable[[], bool], *, within_s: float) -> None:
    end_s = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end_s, f"not within {within_s:.0f} s"
        time.sleep(0.2)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _job(command: Path, data: Path, job_id: str = "run-7") -> dict[str, Any]:
    shown = _asked(command, "job", job_id, "--data", str(data), "--format", "json")
    assert shown.returncode == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def test_a_container_meters_the_quick_start_and_comes_back_with_all_of_it(command: Path, data: Path) -> None:
    """The script stops the container by SIGTERM as soon as it has shown the job."""
    (port,) = _free_ports(1)
    environment = {
        **_without_settings(),
        "TRAINFARE_WEB_PORT": str(port),
        "TRAINFARE": str(command),
        "PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "sdk"),
    }
    script = ["bash", "examples/quickstart/sdk.sh", str(data)]
    done = subprocess.run(script, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    first = _job(command, data)
    assert (first["state"], first["attempts"], first["owner"]) == ("completed", 2, "ada")
    with _serving(command, data):
        assert _job(command, data) == first


def test_what_was_acknowledged_before_sigterm_is_there_afterwards(command: Path, data: Path) -> None:
    """Stopped right after a thousand events were acknowledged, most of them not metered yet."""
    with _serving(command, data) as (_, running):
        client = dict(
            line.split("=", 1) for line in (data / "log/client.env").read_text().splitlines() if "=" in line
        )
        trace = str(ROOT / "examples/helios-500.jsonl.gz")
        sent = _asked(
            command,
            "publish",
            trace,
            **{name.removeprefix("export "): value.strip("'\"") for name, value in client.items()},
        )
        assert sent.returncode == 0, sent.stderr
    assert running.returncode == 0
    with _serving(command, data):
        # Every event of the log is in the books, as a recount from its first record finds.
        _wait_until(lambda: _jobs(command, data) == 501, within_s=300)
        audited = _asked(command, "audit", "--data", str(data))
        assert audited.returncode == 0, audited.stdout + audited.stderr
    assert _jobs(command, data) == 501


def _jobs(command: Path, data: Path) -> int:
    """The jobs of which something is booked or was refused: those of the shard that has had the quick start are too late."""
    found = (
        "SELECT uniqExact(job_id) AS jobs FROM (SELECT job_id FROM job_costs UNION ALL"
        " SELECT JSONExtractString(raw, 'job_id') FROM dead_letters)"
    )
    asked = _asked(command, "sql", found, "--data", str(data), "--format", "json")
    assert asked.returncode == 0, asked.stderr
    (row,) = json.loads(asked.stdout)
    return int(row["jobs"])
