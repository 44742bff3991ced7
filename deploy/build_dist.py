"""Builds what a release has, the same bytes each time: `python -m deploy.build_dist FOLDER` fills FOLDER.

An sdist and a wheel of trainfare and of the SDK; the wheels are built from the sdists. Needs the packages of
requirements-build.lock and a C compiler. SOURCE_DATE_EPOCH is the time of all files; by default that of the last commit.
"""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
#: Folders of projects, relative to the root.
PROJECTS: Final = (".", "sdk")
#: Where no commit says a time.
_DEFAULT_EPOCH: Final = "946684800"
_SDIST: Final = "import sys; from setuptools import build_meta; print(build_meta.build_sdist(sys.argv[1]))"
_WHEEL: Final = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"


def epoch(root: Path = ROOT) -> str:
    """SOURCE_DATE_EPOCH, or when the checkout's last commit was made."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given:
        return given
    asked = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607 - the developer's own
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or _DEFAULT_EPOCH


def levelled(archive: bytes, at_s: int) -> bytes:
    """The same files as a .tar.gz that depends on nothing but their names, contents and who may run them."""
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as given,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as made,
    ):
        for each in sorted(given.getmembers(), key=lambda member: member.name):
            each.mtime, each.uid, each.gid, each.uname, each.gname = at_s, 0, 0, "", ""
            each.pax_headers = {}
            each.mode = 0o755 if each.isdir() or each.mode & 0o100 else 0o644
            made.addfile(each, given.extractfile(each) if each.isfile() else None)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=at_s) as file:
        file.write(plain.getvalue())
    return packed.getvalue()


def build(out: Path) -> list[Path]:
    """Build all files into the folder, which is made.

    Raises:
        subprocess.CalledProcessError: A build failed; what it said is on stderr.
    """
    out.mkdir(parents=True, exist_ok=True)
    at = epoch()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": at, "PYTHONHASHSEED": "0"}
    made = []
    for project in PROJECTS:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            sdist = _hook(_SDIST, ROOT / project, work, environment)
            packed = levelled((work / sdist).read_bytes(), int(at))
            (out / sdist).write_bytes(packed)
            with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
                archive.extractall(work / "from", filter="data")
            wheel = _hook(_WHEEL, work / "from" / sdist.removesuffix(".tar.gz"), out, environment)
            made += [out / sdist, out / wheel]
    return made


def _hook(program: str, project: Path, out: Path, environment: dict[str, str]) -> str:
    """Let setuptools build in a process of its own; the name of the file."""
    umask = os.umask(0o022)  # modes are part of a wheel
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, str(out)],
            cwd=project, env=environment, stdout=subprocess.PIPE, text=True, check=True,
        )  # fmt: skip
    finally:
        os.umask(umask)
    return done.stdout.splitlines()[-1]


def main(arguments: Sequence[str]) -> int:
    """Build; 2 without a folder."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m deploy.build_dist FOLDER\n")
        return 2
    for each in build(Path(arguments[0]).resolve()):
        sys.stdout.write(f"{each.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
