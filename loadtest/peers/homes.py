"""Where peers run: virtual environments of their own, and a folder of jars, made once and kept.

Both kinds are made anew when what they are made from has changed.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = ROOT / ".venv-peers"
JARS = Path.home() / ".cache" / "trainfare" / "peers" / "java"
_HERE = Path(__file__).resolve().parent
_JAVA = _HERE / "java"
_MADE = ".made-from"
_MAKING_S = 900
#: Flink reads fields of the JDK's own classes.
_OPENS = [
    f"--add-opens=java.base/{name}=ALL-UNNAMED"
    for name in ("java.lang", "java.util", "java.nio", "java.time")
]


class MissingError(Exception):
    """A peer cannot be run here; the message says why, in a line."""


@dataclass(frozen=True)
class Home:
    """How a program of a peer is started, and which version of a package it would use."""

    command: tuple[str, ...]
    version: Callable[[str], str]


def ours() -> Home:
    """Our own environment, which has Faust and both clients."""
    return _python(Path(sys.executable))


def environment(name: str) -> Home:
    """Make .venv-peers/NAME from requirements-NAME.txt, each package checked by its hash."""
    wanted = _HERE / f"requirements-{name}.txt"
    directory = ENVIRONMENTS / name
    python = directory / "bin" / "python"
    if not _is_made(directory, [wanted]):
        shutil.rmtree(directory, ignore_errors=True)
        _run([_base_python(), "-m", "venv", str(directory)])
        _run([str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(wanted)])
        _mark(directory, [wanted])
    return _python(python)


def java() -> Home:
    """Build java/ by Maven into the user's cache."""
    sources = sorted(path for path in _JAVA.rglob("*") if path.is_file())
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise MissingError(f"no `{program}` on the PATH")
    if not _is_made(JARS, sources):
        shutil.rmtree(JARS, ignore_errors=True)
        goals = ["package", "dependency:copy-dependencies"]
        where = [f"-Dpeers.build={JARS}", f"-DoutputDirectory={JARS / 'lib'}"]
        _run(["mvn", "-q", "-B", "-f", str(_JAVA / "pom.xml"), *goals, *where])
        _mark(JARS, sources)
    classpath = f"{JARS / 'peers.jar'}:{JARS / 'lib'}/*"
    return Home(("java", "-Xmx2g", *_OPENS, "-cp", classpath), pom_version)


def pom_version(name: str) -> str:
    """A version that java/pom.xml names, by its property without `.version`."""
    found = re.search(
        rf"<{re.escape(name)}\.version>([^<]+)<", (_JAVA / "pom.xml").read_text(encoding="utf-8")
    )
    if found is None:
        raise MissingError(f"pom.xml names no version of {name}")
    return found[1]


def java_version() -> str | None:
    """What the JVM calls itself; None without one."""
    java = shutil.which("java")
    if java is None:
        return None
    said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    return next((line.strip() for line in said.splitlines() if "Server VM" in line), None)


def _python(python: Path) -> Home:
    def version(package: str) -> str:
        code = f"import importlib.metadata as m; print(m.version({package!r}))"
        return _run([str(python), "-c", code]).strip()

    return Home((str(python), "-m"), version)


def _base_python() -> str:
    """Prefer the version that the requirements were resolved for."""
    return shutil.which("python3.11") or shutil.which("python3.12") or sys.executable


def _is_made(directory: Path, sources: Sequence[Path]) -> bool:
    mark = directory / _MADE
    return mark.exists() and mark.read_text(encoding="ascii") == _digest(sources)


def _mark(directory: Path, sources: Sequence[Path]) -> None:
    (directory / _MADE).write_text(_digest(sources), encoding="ascii")


def _digest(sources: Sequence[Path]) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_MAKING_S)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise MissingError(str(fault)) from None
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise MissingError(f"{Path(command[0]).name}: {said[-1] if said else f'exit {done.returncode}'}")
    return done.stdout
