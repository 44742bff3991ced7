"""The bill of materials has each package once, with version, address and licence, and nothing that changes from run to run."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution

from deploy.sbom import document, of_debian, of_python, system_of
from tests.meta.tree import ROOT

_STATUS = """Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-12
Description: GNU C Library
 Version: 9 stands in a text

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0
"""


def test_a_python_package_has_its_licence() -> None:
    (found,) = of_python([distribution("aiohttp")])
    assert found["purl"] == f"pkg:pypi/aiohttp@{distribution('aiohttp').version}"
    assert found["licenses"]


def test_only_installed_packages_of_debian_count() -> None:
    (found,) = of_debian(_STATUS, "debian-13")
    assert found["purl"] == "pkg:deb/debian/libc6@2.41-12?arch=amd64&distro=debian-13"


def test_the_system_is_named() -> None:
    assert system_of('PRETTY_NAME="Debian"\nID=debian\nVERSION_ID="13"\n') == "debian-13"
    assert system_of("") == "unknown-unknown"


def test_components_are_in_order() -> None:
    one, two = {"bom-ref": "a"}, {"bom-ref": "b"}
    assert document([two, one], "1") == document([one, two], "1")
    assert document([two, one], "1")["components"] == [one, two]


def test_two_runs_print_the_same_and_name_what_is_installed() -> None:
    command = [sys.executable, "-m", "deploy.sbom", "--version", "1.2.3"]
    one, two = (subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout for _ in range(2))
    assert one == two
    found = json.loads(one)
    assert found["metadata"]["component"]["version"] == "1.2.3"
    assert {"trainfare", "pyarrow", "msgspec"} <= {each["name"] for each in found["components"]}
    references = [each["bom-ref"] for each in found["components"]]
    assert len(references) == len(set(references))
