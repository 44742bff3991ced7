"""Prints what is installed here as CycloneDX: Python's packages of this environment, and Debian's of the machine.

It runs in the image itself, so it needs Python's own library and nothing else: `python -m deploy.sbom > sbom.cdx.json`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

STATUS: Final = Path("/var/lib/dpkg/status")
OS_RELEASE: Final = Path("/etc/os-release")
NAME: Final = "trainfare"
_FIELD: Final = re.compile(r"^([A-Za-z-]+): (.*)$")


def normal(name: str) -> str:
    """The name of a Python package in its one spelling."""
    return re.sub(r"[-_.]+", "-", name).lower()


def of_python(found: Iterable[Distribution]) -> Iterator[dict[str, Any]]:
    """One component for each installed package, with the licence that it states."""
    for each in found:
        meta = each.metadata
        name = normal(meta["Name"])
        yield {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}@{quote(each.version)}",
            "name": name,
            "version": each.version,
            "purl": f"pkg:pypi/{name}@{quote(each.version)}",
            **_licence(_field(each, "License-Expression"), _field(each, "License")),
        }


def _field(found: Distribution, name: str) -> str | None:
    return next(iter(found.metadata.get_all(name) or ()), None)


def _licence(expression: str | None, words: str | None) -> dict[str, Any]:
    if expression:
        return {"licenses": [{"expression": expression}]}
    # Some packages put the whole text there.
    if words and "\n" not in words and len(words) < 100:
        return {"licenses": [{"license": {"name": words}}]}
    return {}


def of_debian(status: str, system: str) -> Iterator[dict[str, Any]]:
    """One component for each package of dpkg's status file that is installed; `system`: such as `debian-13`."""
    for paragraph in status.split("\n\n"):
        fields = {match[1]: match[2] for line in paragraph.splitlines() if (match := _FIELD.match(line))}
        if fields.get("Status", "").split()[-1:] != ["installed"]:
            continue
        name, version = fields["Package"], fields["Version"]
        purl = f"pkg:deb/debian/{name}@{quote(version)}?arch={fields['Architecture']}&distro={system}"
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def system_of(os_release: str) -> str:
    """Such as `debian-13`."""
    fields = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    return "-".join(fields.get(key, "unknown").strip('"') for key in ("ID", "VERSION_ID"))


def document(components: Iterable[dict[str, Any]], version: str) -> dict[str, Any]:
    """The document; it names no time and no number of its own, so the same image has the same one."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "bom-ref": NAME, "name": NAME, "version": version}},
        "components": sorted(components, key=lambda each: str(each["bom-ref"])),
    }


def main(arguments: Sequence[str]) -> None:
    """Print the document of this machine."""
    parser = argparse.ArgumentParser(prog="sbom", description="Print what is installed, as CycloneDX.")
    parser.add_argument("--version", default="0", help="of the image")
    version = parser.parse_args(arguments).version
    components = list(of_python(distributions()))
    if STATUS.exists():
        components += of_debian(
            STATUS.read_text(encoding="utf-8"), system_of(OS_RELEASE.read_text(encoding="utf-8"))
        )
    json.dump(document(components, version), sys.stdout, indent=1)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
