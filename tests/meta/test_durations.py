"""A length of time, and the instants before and after all others, have one definition each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.meta.tree import ROOT, tracked

_NAME = re.compile(r"^_?((SECOND|MINUTE|HOUR|DAY|WEEK)_(MS|S)|NEVER_MS|BEGINNING_MS)\b[^=\n]*= ", re.M)
HOME = ROOT / "schemas" / "durations.py"


def defined_in(source: str) -> Iterator[str]:
    """The names of lengths that a module defines."""
    return (match[1] for match in _NAME.finditer(source))


def test_each_is_defined_in_one_module() -> None:
    folders = [ROOT / name for name in ("loadtest", "schemas", "sinks", "streams")]
    files = [
        file for file in tracked() if file.suffix == ".py" and any(each in file.parents for each in folders)
    ]
    assert len(files) > 500
    found = {str(file.relative_to(ROOT)): [*defined_in(file.read_text())] for file in files if file != HOME}
    assert {file: names for file, names in found.items() if names} == {}
    assert len([*defined_in(HOME.read_text())]) == 10


def test_a_second_definition_would_be_found() -> None:
    source = "HOUR_MS = 1\n_DAY_S: Final = 2\nfrom a import MINUTE_MS\nMAX_HOUR_MS = 3\nNEVER_MS: Final = 4\n"
    assert [*defined_in(source)] == ["HOUR_MS", "DAY_S", "NEVER_MS"]
