"""The library that draws the charts: what it is, its licence, and that it ships and is served."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path

from streams.web import assets

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "streams" / "web" / "static" / "vendor" / "uplot"
#: Of the files of the release, so that nobody edits them by hand: a fix goes into timechart.js, or comes with a release.
SHA256 = {
    "uPlot.esm.js": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


def test_it_is_the_release_that_it_says_with_its_licence() -> None:
    version = re.match(r"uPlot ([\d.]+), MIT licence", (FOLDER / "VERSION").read_text())
    assert version is not None
    assert f"(v{version[1]})" in (FOLDER / "uPlot.esm.js").read_text()[:400]
    assert (FOLDER / "LICENSE").read_text().startswith("The MIT License (MIT)")
    assert {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in SHA256} == SHA256


def test_one_module_alone_imports_it() -> None:
    scripts = (ROOT / "streams" / "web" / "static").rglob("*.js")
    users = {
        path.name for path in scripts if FOLDER not in path.parents and "uPlot.esm.js" in path.read_text()
    }
    assert users == {"timechart.js"}


def test_it_is_served_as_a_script_and_a_style() -> None:
    found = assets.load()
    assert found["vendor/uplot/uPlot.esm.js"].type.startswith("text/javascript")
    assert found["vendor/uplot/uPlot.min.css"].type.startswith("text/css")


def test_every_file_of_the_page_is_package_data() -> None:
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    missing = []
    for path in (ROOT / "streams" / "web" / "static").rglob("*"):
        package = ".".join(path.parent.relative_to(ROOT).parts)
        wanted = [*patterns["*"], *patterns.get(package, [])]
        if path.is_file() and not any(path.match(each) for each in wanted):
            missing.append(str(path))
    assert not missing, "the wheel would leave these out"
