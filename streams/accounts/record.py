"""Makes the record of `controls` by which a source says what became of all that was read of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from schemas.validate_sources import MAX_REASONS, SOURCE
from schemas.wire_types import MAX_NAME_BYTES
from streams.accounts.account import Account, EntryClass

_BY: Final = "trainfare/sources"


def source_record(
    name: str, account: Account, polls: int, standing: Sequence[str], now_ms: int
) -> dict[str, Any]:
    """The record; `standing` are the reasons of what is not understood now.

    Examples are cut to what a record takes; of more reasons than it takes the first by name stay.
    """
    entries = {
        f"{entry_class}/{reason}" if reason else str(entry_class): count
        for (entry_class, reason), count in sorted(account.counts.items())
        if count or entry_class == EntryClass.METERED
    }
    examples = {reason: _cut(said[0]) for reason, said in sorted(account.examples.items()) if said}
    figures = {
        "polls": polls,
        "entries": dict([*entries.items()][:MAX_REASONS]),
        "examples": dict([*examples.items()][:MAX_REASONS]),
        "standing": [*standing][:MAX_REASONS],
    }
    identity = hashlib.sha256(f"{name} {now_ms} {figures}".encode()).hexdigest()[:24]
    return {
        "kind": SOURCE,
        "name": name,
        "id": f"source_{identity}",
        "source": _BY,
        "time_ms": now_ms,
        **figures,
    }


def _cut(text: str) -> str:
    return text.encode()[:MAX_NAME_BYTES].decode("utf-8", "ignore")
