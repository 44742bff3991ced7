"""The modules of the live page, joined into a script for what every page needs and one for what each page adds.

A browser takes milliseconds for each file, though it has it: a page of forty is there later than one of four. A module's text is
in its script as it is written, in a block of its own; its imports are read from what the modules before it have exported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final

#: Where scripts and styles that are made of several files lie.
FOLDER: Final = "bundle/"
#: The module that every page begins with.
APP: Final = "app.js"
#: `import NAMES from "./PATH";`, in a line of its own.
_IMPORT: Final = re.compile(r"""^import (\w+|\{[^}]+\}) from "(\.[^"]+)";$""", re.MULTILINE)
_EXPORTED: Final = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_DEFAULT: Final = re.compile(r"^export \{ (\w+) as default \};$", re.MULTILINE)
#: What of a module could not stand in a block.
_LEFT: Final = re.compile(r"^(?:import|export)\b.*|\bimport\.meta\b", re.MULTILINE)
#: A module that is loaded when it is first needed.
_LATER: Final = re.compile(r"""\bimport\("(\.[^"]+)"\)""")
#: How pages.js names a page that it loads when it is first asked for.
_PAGE: Final = re.compile(r"""import\("\./pages/(\w+)\.js"\)""")
_STYLES: Final = re.compile(rb'(?:<link rel="stylesheet" href="static/[^"]+">\s*)+')
_STYLE: Final = re.compile(rb'href="static/([^"]+)"')


class JoinError(Exception):
    """A module uses what cannot be joined with others."""


def joined_scripts(modules: Mapping[str, str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The scripts by path, and for each which pages need it: none are named where all do. `modules` are texts by path.

    Raises:
        JoinError: A module has an import or export of another form than those of the page, or imports go round in a circle.
    """
    imports = {
        path: [_resolved(path, other) for _, other in _IMPORT.findall(text)] for path, text in modules.items()
    }
    pages = _PAGE.findall(modules["pages.js"])
    board = _in_order(imports, APP)
    needed = {page: _in_order(imports, f"pages/{page}.js") for page in pages}
    by_pages: dict[tuple[str, ...], list[str]] = {(): board}
    for path in dict.fromkeys(path for each in needed.values() for path in each):
        if path not in board:
            by_pages.setdefault(tuple(page for page in pages if path in needed[page]), []).append(path)
    # A script is named after the module that is there for the others.
    home = {path: FOLDER + paths[-1] for paths in by_pages.values() for path in paths}
    scripts = {home[paths[-1]]: _joined(paths, modules, imports, home) for paths in by_pages.values()}
    return scripts, {home[paths[-1]]: list(names) for names, paths in by_pages.items()}


def joined_styles(document: bytes, files: Mapping[str, bytes], path: str) -> tuple[bytes, bytes]:
    """A document whose style sheets, which stand together, are one at `path`, and that sheet."""
    found = _STYLES.search(document)
    if found is None:
        return document, b""
    sheet = b"\n".join(files[name.decode()] for name in _STYLE.findall(found[0]))
    link = f'<link rel="stylesheet" href="static/{path}">\n'.encode()
    return document[: found.start()] + link + document[found.end() :], sheet


def _in_order(imports: Mapping[str, Sequence[str]], path: str) -> list[str]:
    """A module after all that it imports before it runs, each once."""
    found: dict[str, None] = {}

    def add(path: str, above: Sequence[str]) -> None:
        if path in above:
            raise JoinError(f"imports go round in a circle: {' -> '.join([*above, path])}")
        for other in imports[path]:
            if other not in found:
                add(other, [*above, path])
        found[path] = None

    add(path, [])
    return list(found)


def _resolved(path: str, other: str) -> str:
    return normpath(PurePosixPath(path).parent / other)


def _joined(
    paths: Sequence[str],
    modules: Mapping[str, str],
    imports: Mapping[str, Sequence[str]],
    home: Mapping[str, str],
) -> str:
    """A script of modules, which are in order."""
    own = home[paths[0]]
    others = {home[other] for path in paths for other in imports[path]} - {own, FOLDER + APP}
    lines = [f'import "{_from(own, each)}";' for each in sorted(others)]
    if own == FOLDER + APP:
        lines.append("export const $modules = {};")
    else:
        lines.append(f'import {{ $modules }} from "{_from(own, FOLDER + APP)}";')
    lines += [_block(path, modules[path], own, home) for path in paths]
    return "\n".join(lines) + "\n"


def _block(path: str, text: str, own: str, home: Mapping[str, str]) -> str:
    """A module as a block that leaves what it exports in `$modules`."""

    def imported(found: re.Match[str]) -> str:
        names = found[1] if found[1].startswith("{") else f"{{ default: {found[1]} }}"
        return f'const {names} = $modules["{_resolved(path, found[2])}"];'

    def later(found: re.Match[str]) -> str:
        other = _resolved(path, found[1])
        return f'import("{_from(own, home[other])}").then(() => $modules["{other}"])'

    # What has a default export has no other; what looks like one there stands in a comment.
    exported = [f"default: {name}" for name in _DEFAULT.findall(text)] or _EXPORTED.findall(text)
    text = _LATER.sub(later, _DEFAULT.sub("", _EXPORTED.sub("", _IMPORT.sub(imported, text))))
    if left := _LEFT.search(text):
        raise JoinError(f"{path}: cannot be joined with others: {left[0]}")
    return f'{{ // {path}\n{text}\n$modules["{path}"] = {{ {", ".join(exported)} }};\n}}'


def _from(own: str, other: str) -> str:
    """The address of a script as another names it."""
    return "../" * own.count("/") + other
