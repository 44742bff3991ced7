"""Makes the record that issues, rotates or revokes an access token, for the API and for files of tokens.

A token is known by its SHA-256 alone: whoever issues one makes it, and its text is nowhere here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.invalid import Invalid
from schemas.redaction import CONTROLS
from schemas.refusal import shown
from schemas.validate_requests import digest_of
from schemas.validate_tokens import BOUNDS, KEY_PREFIX, TOKEN, is_token, newest_of
from sinks.private_files import read_private, write_private
from streams.config.live import WebSettings
from streams.errors import TrainfareError
from streams.web.control_record import SOURCE, ControlRecord, FieldError

#: In a data directory; what is issued while no worker runs, and before the first.
FILE_NAME: Final = "tokens.jsonl"
_FILE_MAX_BYTES: Final = 8 * 2**20
#: Whoever may write the file may issue tokens.
_ANY_TIME_MS: Final = 2**62
#: What each change may say; the rest of a token in force is kept.
_OF_ISSUE: Final = frozenset({"name", "hash", "scopes", *BOUNDS, "expires_ms", "comment", "person"})
_OF_ROTATION: Final = frozenset({"name", "rotate", "hash", "former_until_ms", "expires_ms", "comment"})
_OF_REVOCATION: Final = frozenset({"name", "revoked", "comment"})


class TokenConflictError(Exception):
    """There is such a token already, or none; the message says which."""


def token_record(
    asked: Mapping[str, Any],
    standing: Mapping[bytes, ControlEvent],
    by: str,
    now_ms: int,
    issues_for: str = "",
) -> ControlRecord:
    """The record of a change: `rotate` gives a token another hash, `revoked` ends it, else it is issued.

    Args:
        asked: The fields that a client sent.
        standing: The records of tokens in force, by key.
        by: Who asks.
        now_ms: Log time, ms since 1970.
        issues_for: Whose a new token is where `asked` names no person: whoever issues it has seen its text.

    Raises:
        FieldError: A field is invalid.
        TokenConflictError: The name has a token already, or none that could be changed.
    """
    name = asked.get("name")
    if not isinstance(name, str):
        raise FieldError("name", "expected the name of the token")
    is_rotation, is_revocation = asked.get("rotate") is True, asked.get("revoked") is True
    allowed = _OF_ROTATION if is_rotation else _OF_REVOCATION if is_revocation else _OF_ISSUE
    if unknown := sorted(set(asked) - allowed):
        raise FieldError(unknown[0], f"expected {', '.join(sorted(allowed))} alone")
    before = standing.get(KEY_PREFIX + name.encode("utf-8", "surrogateescape"))
    is_live = before is not None and not _is_over(before, now_ms)
    if not (is_rotation or is_revocation) and is_live:
        raise TokenConflictError(f"there is a token {shown(name)} already: rotate it, or revoke it first")
    if (is_rotation and not is_live) or (is_revocation and before is None):
        raise TokenConflictError(f"there is no token {shown(name)} that could be changed")
    kept: dict[str, Any] = {"person": issues_for} if issues_for else {}
    if before is not None and (is_rotation or is_revocation):
        kept = {**before.value}
    if is_rotation:
        former = kept.pop("hash")
        kept.pop("former_hash", None)
        kept.pop("former_until_ms", None)
        if "former_until_ms" in asked:
            kept["former_hash"] = former
    changed = {field: each for field, each in asked.items() if field != "rotate" and each is not None}
    content = {**kept, **changed, "kind": TOKEN, "name": name, "by": by}
    identity = f"web_{digest_of(content)}"
    value = msgspec.json.encode({"source": SOURCE, "id": identity, "time_ms": now_ms, **content})
    event = decode(CONTROLS, value, (), now_ms)
    if isinstance(event, Invalid):
        raise FieldError("", event.detail)
    return ControlRecord(f"{TOKEN}/{name}".encode(), value, TOKEN, name, identity)


def _is_over(event: ControlEvent, now_ms: int) -> bool:
    expires_ms = event.value.get("expires_ms")
    is_expired = isinstance(expires_ms, int) and now_ms >= expires_ms
    return bool(event.value.get("revoked", False)) or is_expired


def token_file_of(web: WebSettings, data_dir: Path | None) -> TokenFile | None:
    """The file that the settings name, else that of the data directory; None: there is neither."""
    if web.tokens_file is not None:
        return TokenFile(web.tokens_file)
    return None if data_dir is None else TokenFile(data_dir / FILE_NAME)


class TokenFile:
    """A file of issued tokens, one record a line as `trainfare publish` takes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[bytes, ControlEvent]:
        """The newest record of each token, by key; none where there is no file.

        Raises:
            TrainfareError: A line is no record of a token.
            SinkError: The file is not this user's, or others may write it.
        """
        found: dict[bytes, ControlEvent] = {}
        for number, line in enumerate(self._lines(), 1):
            try:
                raw = msgspec.json.decode(line, type=_TokenLine)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                raise self._fault(number, 'expected {"topic": "controls", "value": {...}}') from None
            event = decode(CONTROLS, bytes(raw.value), (), _ANY_TIME_MS)
            if raw.topic != CONTROLS or not isinstance(event, ControlEvent):
                said = event.detail if isinstance(event, Invalid) else f"topic {shown(raw.topic)}"
                raise self._fault(number, said)
            key = f"{event.kind}/{event.name}".encode()
            if not is_token(key, event):
                raise self._fault(number, f"a control of kind {shown(event.kind)}, expected tokens alone")
            found = newest_of(found, {key: event})
        return found

    def add(self, record: ControlRecord) -> None:
        """Append a record; the file is made for this user alone.

        Raises:
            SinkError: The system refused; the file is unchanged.
        """
        line = msgspec.json.encode(_TokenLine(topic=CONTROLS, value=msgspec.Raw(record.value)))
        write_private(self.path, b"".join(each + b"\n" for each in (*self._lines(), line)))

    def _lines(self) -> Sequence[bytes]:
        # A link is followed where it was named on purpose: a mounted Secret is one. Its content is judged as ever.
        data = read_private(self.path.resolve(), _FILE_MAX_BYTES) or b""
        return [line for line in data.splitlines() if line.strip()]

    def _fault(self, number: int, said: str) -> TrainfareError:
        return TrainfareError(
            f"{self.path}: line {number}: {said}; `trainfare tokens create --file` writes such files"
        )


class _TokenLine(msgspec.Struct):
    topic: str
    value: msgspec.Raw
