"""Signs the canary's records and tells them from any others: ids end in a MAC of the whole record.

The MAC binds every byte of the value and its topic, so whoever has read a record in Kafka can only send the same one again.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

_MAC_CHARS: Final = 32  # 128 bits
_BLANK: Final = b"0" * _MAC_CHARS
KEY_MIN_CHARS: Final = 32


@dataclass(frozen=True, slots=True)
class CanaryProof:
    """Proofs by one key, which all workers of a meter share and nobody else can read."""

    key: bytes = field(repr=False)

    def signed(self, topic: str, record: Mapping[str, Any]) -> bytes:
        """The record's value with the MAC at the end of its id."""
        blank = msgspec.json.encode({**record, "id": f"{record['id']}.{_BLANK.decode()}"})
        return blank.replace(_BLANK, self._mac(topic, blank), 1)

    def holds(self, topic: str, value: bytes, event_id: str) -> bool:
        """Whether a worker with this key made the value for this topic, byte for byte."""
        mac = event_id[-_MAC_CHARS:].encode("utf-8", "surrogatepass")
        if len(mac) != _MAC_CHARS or value.count(mac) != 1:
            return False
        return hmac.compare_digest(mac, self._mac(topic, value.replace(mac, _BLANK)))

    def _mac(self, topic: str, blank: bytes) -> bytes:
        return (
            hmac.new(self.key, topic.encode() + b"\0" + blank, hashlib.sha256)
            .hexdigest()[:_MAC_CHARS]
            .encode()
        )
