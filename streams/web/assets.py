"""The files of the live page, read once, each with an ETag.

The documents name them below their common version (`static/v/VERSION/app.js`), where a browser may keep them for good: a
page that was open before asks for none of them again, and a new version has other addresses.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import mimetypes
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

from schemas.currencies import OTHER_DECIMALS, USUAL_DECIMALS
from schemas.units import READABLE
from streams.engine.alerts.possible import CEILING_FIELDS, silence_fields
from streams.engine.alerts.titles import TITLES
from streams.engine.rules.registry import ALL, PLANNED_QUIETS
from streams.engine.rules.rule import IS_FLAG
from streams.web.bundles import APP, FOLDER, joined_scripts, joined_styles

_OF_VERSION: Final = re.compile(r"v/([0-9a-f]{16})/(.+)", re.DOTALL)
_FOR_GOOD: Final = "max-age=31536000, immutable"
_COMPRESSED_FROM_BYTES: Final = 512
#: The script that is made of the rules.
RULES_FILE: Final = "rules.js"
INDEX_FILE: Final = "index.html"
#: Where the links to scripts of pages stand in the document.
_MODULES: Final = b"<!-- modules -->"
_TYPES: Final = {
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    body: bytes
    compressed: bytes | None
    type: str
    tag: str

    def answer(self, request: web.Request, caching: str = "no-cache") -> web.Response:
        """The file, or 304 if the browser has it."""
        headers = {"ETag": self.tag, "Cache-Control": caching, "Vary": "Accept-Encoding"}
        if self.tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        if self.compressed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return web.Response(body=self.compressed, headers={**headers, "Content-Type": self.type})
        return web.Response(body=self.body, headers={**headers, "Content-Type": self.type})


class Assets(dict[str, Asset]):
    """The files by their paths below the folder, and their common version."""

    version: str = ""

    def answer(self, path: str, request: web.Request) -> web.Response | None:
        """The file at a path, which may begin with a version; None: there is none.

        A file of another version is answered as it is now, and not kept: a page that is still open may ask for it.
        """
        of_version = _OF_VERSION.fullmatch(path)
        version, path = of_version.groups() if of_version else ("", path)
        asset = self.get(path)
        if asset is None:
            return None
        return asset.answer(request, _FOR_GOOD if version and version == self.version else "no-cache")


def load(folder: Traversable | None = None) -> Assets:
    """Every file of the page, or of another folder."""
    if folder is not None:
        return Assets(_walk(folder, "") if folder.is_dir() else ())
    found = {
        **dict(_walk(resources.files("streams.web") / "static", "")),
        RULES_FILE: _asset(RULES_FILE, rules_js()),
    }
    scripts, pages_of = joined_scripts(
        {path: each.body.decode() for path, each in found.items() if path.endswith(".js")}
    )
    found |= {path: _asset(path, text.encode()) for path, text in scripts.items()}
    sheet_path = f"{FOLDER}index.css"
    document, sheet = joined_styles(
        found[INDEX_FILE].body, {path: each.body for path, each in found.items()}, sheet_path
    )
    document = document.replace(_MODULES, script_links(pages_of).encode())
    document = document.replace(f'"static/{APP}"'.encode(), f'"static/{FOLDER}{APP}"'.encode())
    found |= {INDEX_FILE: _asset(INDEX_FILE, document), sheet_path: _asset(sheet_path, sheet)}
    version = hashlib.sha256("".join(found[path].tag for path in sorted(found)).encode()).hexdigest()[:16]
    for path in [path for path in found if path.endswith(".html")]:
        body = found[path].body.replace(b'="static/', b'="static/v/' + version.encode() + b"/")
        found[path] = _asset(path, body)
    assets = Assets(found)
    assets.version = version
    return assets


def script_links(pages_of: Mapping[str, list[str]]) -> str:
    """Links in the head to the scripts of pages, with the names of those that need each.

    early.js asks for them first where the address names such a page; the script of all pages is asked for by each.
    """
    lines = [
        f'<link data-pages="{" ".join(pages)}" href="static/{path}">'
        for path, pages in sorted(pages_of.items())
        if pages
    ]
    return "\n".join([*lines, '<script src="static/early.js"></script>'])


def rules_js() -> bytes:
    """The script of what the page must know of rules, of what can be done about alerts of each, of units and currencies."""
    made = {
        "RULES": json.dumps(TITLES, indent=2),
        "PLANNED_QUIETS": f"new Set({json.dumps(PLANNED_QUIETS)})",
        "SILENCE_FIELDS": json.dumps({rule.name: silence_fields(rule.name) for rule in ALL}),
        "CEILING_FIELDS": json.dumps(CEILING_FIELDS),
        "IS_FLAG": json.dumps(IS_FLAG),
        "READABLE_UNITS": json.dumps(READABLE),
        "USUAL_DECIMALS": json.dumps(USUAL_DECIMALS),
        "OTHER_DECIMALS": json.dumps(OTHER_DECIMALS),
    }
    return "".join(f"export const {name} = {value};\n" for name, value in made.items()).encode()


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Asset]]:
    found: list[tuple[str, Asset]] = []
    for item in folder.iterdir():
        if item.name.startswith((".", "__")):
            continue
        if item.is_dir():
            found += _walk(item, f"{prefix}{item.name}/")
        else:
            found.append((f"{prefix}{item.name}", _asset(item.name, item.read_bytes())))
    return found


def _asset(name: str, body: bytes) -> Asset:
    suffix = "." + name.rpartition(".")[2]
    kind = _TYPES.get(suffix) or mimetypes.guess_type(name)[0] or "application/octet-stream"
    is_text = kind.startswith("text/") or kind.endswith(("+xml", "+json", "/json"))
    compressed = gzip.compress(body, mtime=0) if is_text and len(body) >= _COMPRESSED_FROM_BYTES else None
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return Asset(body, compressed, f"{kind}; charset=utf-8" if is_text else kind, tag)
