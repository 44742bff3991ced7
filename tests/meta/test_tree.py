"""Rules of the whole tree: size, reasons, docstrings. Each guard is shown to fire."""

from __future__ import annotations

from tests.meta.tree import LINES_MAX, ROOT, docstring_of, tracked, unexplained_in

LONG_FILES: dict[str, str] = {}
"""Path -> the reason why it may be longer. Empty is best."""


def python_files() -> list[str]:
    return [str(path.relative_to(ROOT)) for path in tracked() if path.suffix == ".py"]


def test_no_python_file_is_over_500_lines() -> None:
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in python_files()}
    too_long = {
        name: count for name, count in lengths.items() if count > LINES_MAX and name not in LONG_FILES
    }
    assert not too_long
    stale = [name for name in LONG_FILES if lengths.get(name, 0) <= LINES_MAX]
    assert not stale, "allowed to be long, but is not"


def test_every_exception_in_the_list_has_a_reason() -> None:
    assert all(len(reason) > 20 for reason in LONG_FILES.values())


def test_silenced_checks_say_why() -> None:
    found = {
        name: lines
        for name in python_files()
        if (lines := unexplained_in((ROOT / name).read_text(encoding="utf-8")))
    }
    assert not found


def test_modules_say_their_purpose() -> None:
    packages = ("schemas", "sinks", "streams", "loadtest")
    silent = [
        name
        for name in python_files()
        if name.startswith(packages) and not docstring_of((ROOT / name).read_text(encoding="utf-8"))
    ]
    assert not silent


def test_suppression_guard_fires() -> None:
    quiet = "# no" + "qa"
    ignored = "# type: " + "ignore[misc]"
    assert unexplained_in(f"x = 1  {quiet}: E501") == [f"1: x = 1  {quiet}: E501"]
    assert unexplained_in(f"x = 1  {ignored}")
    assert not unexplained_in(f"x = 1  {quiet}: E501  # the address cannot be broken")
    assert not unexplained_in(f"x = 1  {ignored}  # numba has no types")


def test_docstring_guard_fires() -> None:
    assert docstring_of("import os\n") == ""
    assert docstring_of('"""Purpose."""\n') == "Purpose."
