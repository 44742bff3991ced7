"""Hooks of the documentation site (`mkdocs.yml`, `make site`).

The Markdown of the repository reads well as files and stays as it is. What the site needs beyond it is done while it is
built: files outside docs/ that pages link to come along under repo/, links lead there, captions get the anchors
that the files' links use, and lists and code are laid out as Python-Markdown reads them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

DOCS: Final = "docs"
#: What the theme loads from another host for searching without a server, and our own in its place.
_SHIM: Final = re.compile(r"https://[^\s\"'<>/]+/iframe-worker/shim")
WORKER: Final = "assets/javascripts/file_worker.js"
#: The folder of the site for what lies outside docs/.
OUTSIDE: Final = "repo"

_FENCE: Final = re.compile(r"^ *(```+|~~~+)")
_CODE_SPAN: Final = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
# The text may be code or a picture; the target has no spaces, and of it the part before the anchor is a file.
_LINK: Final = re.compile(r"(\]\()([^)\s#]*)((?:#[^)\s]*)?(?:\s+\"[^\"]*\")?\))")
_LOADED: Final = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*?\b(?:src|href)=["']?((?:https?:)?//[^"' >]+)"""
)
_ITEM: Final = re.compile(r"^(?:[-*+]|\d+[.)]) ")
_INDENT: Final = 4


def slug(caption: str, separator: str) -> str:
    """The anchor of a caption as the links of the repository spell it: small letters, punctuation left out."""
    return re.sub(r"[^\w -]", "", caption).lower().replace(" ", separator)


def links(markdown: str) -> list[str]:
    """The files that a page links to, as its links spell them."""
    found: list[str] = []

    def seen(target: str) -> str:
        found.append(target)
        return target

    for line, code in _lines(markdown):
        if not code:
            _each_link(line, seen)
    return found


def site_path(path: str) -> str:
    """Where a file of the repository stands on the site; servers leave out names that begin with a dot."""
    if path.startswith(f"{DOCS}/"):
        return path.removeprefix(f"{DOCS}/")
    return "/".join([OUTSIDE, *(part.removeprefix(".") for part in path.split("/"))])


def outside_files(root: Path) -> dict[str, str | None]:
    """What comes along: files outside docs/ that pages link to, from docs/ on and from one to the next, by path.

    Each with its text where the site makes it up, which is the list of a folder that has no README.
    """
    waiting = [str(page.relative_to(root)) for page in sorted((root / DOCS).rglob("*.md"))]
    found: dict[str, str | None] = dict.fromkeys(waiting)
    while waiting:
        page = waiting.pop()
        text = found[page] or (root / page).read_text(encoding="utf-8")
        for target in links(text):
            path = target_path(root, page, target)
            if path is None or path in found:
                continue
            found[path] = None if (root / path).is_file() else listing(root, posixpath.dirname(path))
            waiting += [path] if path.endswith(".md") else []
    return {path: text for path, text in sorted(found.items()) if not path.startswith(f"{DOCS}/")}


def listing(root: Path, folder: str) -> str:
    """The page of a folder that has no README: its files."""
    names = sorted(each.name for each in (root / folder).iterdir() if each.is_file())
    return f"# {folder}\n\n" + "".join(f"- [{name}]({name})\n" for name in names)


def target_path(root: Path, page: str, target: str) -> str | None:
    """The file of the repository that a page's link leads to; a folder stands for its README. None: there is none."""
    if not target or ":" in target:
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
    if path.startswith(".."):
        return None
    if (root / path).is_dir():
        return f"{path}/README.md"
    return path if (root / path).is_file() else None


def rewritten(root: Path, page: str, markdown: str) -> str:
    """The page with links as they lead on the site. A link to no file stays, and the strict build refuses it."""
    start = posixpath.dirname(site_path(page))

    def leads(target: str) -> str:
        path = target_path(root, page, target)
        return target if path is None else posixpath.relpath(site_path(path), start or ".")

    return "\n".join(line if code else _each_link(line, leads) for line, code in _lines(markdown))


def laid_out(markdown: str) -> str:
    """The page with an empty line before lists and tables that follow text, and what belongs to an item indented by four.

    GitHub reads both without; Python-Markdown makes one paragraph of them.
    """
    out: list[str] = []
    in_list, added = False, 0
    code_before = False
    for line, code in _lines(markdown):
        before = out[-1] if out else ""
        opens = code and not code_before
        code_before = code
        if opens or not code:
            indent = len(line) - len(line.lstrip(" "))
            if _ITEM.match(line):
                if before.strip() and not in_list:
                    out.append("")
                in_list = True
            elif line.startswith("|") and before.strip() and not before.startswith("|"):
                out.append("")
            elif line.strip() and not indent and not before.strip():
                in_list = False
            added = _INDENT - indent if in_list and 0 < indent < _INDENT else 0
            if opens and before.strip():
                out.append("")
        out.append(" " * added + line if line.strip() else line)
    return "\n".join(out)


def own_worker(html: str, base: str) -> str:
    """The page with our own script for searching without a server; a page that loads from another host is an error."""
    html = _SHIM.sub(posixpath.join(base, WORKER), html)
    if loaded := _LOADED.findall(html):
        raise ValueError(f"the page loads {', '.join(loaded)}: a page of the site asks no other host")
    return html


def _lines(markdown: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it belongs to a block of code."""
    fence = ""
    for line in markdown.split("\n"):
        found = _FENCE.match(line)
        if fence:
            yield line, True
            if found and line.strip() == fence:
                fence = ""
        else:
            fence = found[1] if found else ""
            yield line, bool(fence)


def _each_link(line: str, leads: Callable[[str], str]) -> str:
    """The line with each link's file replaced by what it leads to; what stands in code is no link."""
    code = [match.span() for match in _CODE_SPAN.finditer(line)]

    def one(match: re.Match[str]) -> str:
        quoted = any(start <= match.start() < end for start, end in code)
        return match[0] if quoted else f"{match[1]}{leads(match[2])}{match[3]}"

    return _LINK.sub(one, line)


# ------------------------------------------------------------------------------------------- what mkdocs calls


def _root(config: Any) -> Path:
    return Path(config["config_file_path"]).parent


def on_config(config: Any) -> Any:
    """Captions get the anchors of the repository's links."""
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files: Any, *, config: Any) -> Any:
    """Files outside docs/ that pages link to join the site."""
    from mkdocs.structure.files import File  # only `make site` has mkdocs, and tests of this module need none

    root = _root(config)
    files.append(File.generated(config, WORKER, abs_src_path=str(Path(__file__).with_name("file_worker.js"))))
    for path, text in outside_files(root).items():
        here = {"abs_src_path": str(root / path)} if text is None else {"content": text}
        files.append(File.generated(config, site_path(path), **here))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Iterable[Any]) -> str:
    """Links and layout of one page."""
    root = _root(config)
    if page.file.abs_src_path is None:
        return markdown
    path = str(Path(page.file.abs_src_path).relative_to(root))
    return laid_out(rewritten(root, path, markdown))


def on_post_page(output: str, *, page: Any, config: Any) -> str:
    """Nothing is loaded from another host."""
    return own_worker(output, posixpath.relpath(".", posixpath.dirname(page.file.dest_uri) or "."))


def on_post_template(output_content: str, *, template_name: str, config: Any) -> str:
    """The same for what is no page of Markdown; a server shows 404.html at any depth, so its paths begin at the root."""
    return own_worker(output_content, "/")
