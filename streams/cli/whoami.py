"""`trainfare whoami`: whose the token is that a command would show, and what it may do."""

from __future__ import annotations

import sys
from typing import Any

from schemas.escaping import visible
from streams.cli.options import DataOption, UrlOption, settings_for
from streams.cli.output import minute_text


def whoami(data: DataOption = None, url: UrlOption = None) -> None:
    """Ask a worker who this is: the token of `TRAINFARE_WEB_TOKEN`, or of the data directory."""
    from streams.cli.acting import worker_at

    found = worker_at(data, url, settings_for(data)).whoami()
    sys.stdout.write("".join(f"{visible(line)}\n" for line in _lines(found)))


def _lines(found: dict[str, Any]) -> list[str]:
    from schemas.validate_tokens import BOUNDS  # loads NumPy

    # A worker of an earlier version does not say how it was proven.
    proven_by = found.get("proven_by") or ("issued token" if found["is_issued"] else "shared token")
    is_shared = proven_by == "shared token"
    kind = (
        "shared: of the settings or of a data directory, so nobody's in particular"
        if is_shared
        else proven_by
    )
    expires_ms = found["expires_ms"]
    ends = "never" if expires_ms is None else minute_text(expires_ms)
    bounds = [f"{name} {', '.join(found[name])}" for name in BOUNDS if found[name]]
    return [
        f"token     {found['token']} ({kind})",
        f"scopes    {', '.join(found['scopes'])}",
        f"bound to  {'; '.join(bounds) or 'nothing: it may name all'}",
        f"expires   {ends}",
        f"address   {found['address']}",
    ]
