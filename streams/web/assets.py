"""The files of the live page, read once, each with an ETag."""

from __future__ import annotations

import gzip
import hashlib
import json
import mimetypes
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from aiohttp import web

from schemas.units import READABLE
from streams.engine.alerts.possible import CEILING_FIELDS, silence_fields
from streams.engine.alerts.titles import TITLES
from streams.engine.rules.registry import ALL, PLANNED_QUIETS
from streams.engine.rules.rule import IS_FLAG

_COMPRESSED_FROM_BYTES: Final = 512
#: The script that is made of the rules.
RULES_FILE: Final = "rules.js"
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

    def answer(self, request: web.Request) -> web.Response:
        """The file, or 304 if the browser has it."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if self.tag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        if self.compressed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return web.Response(body=self.compressed, headers={**headers, "Content-Type": self.type})
        return web.Response(body=self.body, headers={**headers, "Content-Type": self.type})


def load(folder: Traversable | None = None) -> dict[str, Asset]:
    """Every file of the page by its path below the folder."""
    if folder is not None:
        return dict(_walk(folder, "")) if folder.is_dir() else {}
    return {
        **dict(_walk(resources.files("streams.web") / "static", "")),
        RULES_FILE: _asset(RULES_FILE, rules_js()),
    }


def rules_js() -> bytes:
    """The script of what the page must know of rules, of what can be done about alerts of each, and of units."""
    made = {
        "RULES": json.dumps(TITLES, indent=2),
        "PLANNED_QUIETS": f"new Set({json.dumps(PLANNED_QUIETS)})",
        "SILENCE_FIELDS": json.dumps({rule.name: silence_fields(rule.name) for rule in ALL}),
        "CEILING_FIELDS": json.dumps(CEILING_FIELDS),
        "IS_FLAG": json.dumps(IS_FLAG),
        "READABLE_UNITS": json.dumps(READABLE),
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
