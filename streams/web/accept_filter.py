"""Says whether a request has arrived, so that under pressure no handler is made for one that may never come.

A handler costs ten times as much as a socket that waits.  FreeBSD's `accf_http` does the same in the kernel.  The bytes are
only looked at: what they mean is the handler's to decide, and it refuses what is malformed.
"""

from __future__ import annotations

import re
from typing import Final

#: Limit of a whole header, which the parser holds before there is a request.
HEADER_MAX_BYTES: Final = 32 * 1024
#: So much of a body has to be there; of a larger one the handler reads the rest, and its sender is charged for it.
BODY_AWAITED_BYTES: Final = 64 * 1024
#: What has to be looked at to tell.
PEEKED_BYTES: Final = HEADER_MAX_BYTES + BODY_AWAITED_BYTES

_HEADER_END: Final = b"\r\n\r\n"
_LAST_CHUNK: Final = b"0\r\n\r\n"
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding:[^\r\n]*chunked", re.IGNORECASE)


def awaited_bytes(received: bytes) -> int:
    """At which size the request has to be looked at again; 0: it has arrived.

    Args:
        received: All bytes of the connection, up to `PEEKED_BYTES`.
    """
    one_more = len(received) + 1
    end = received.find(_HEADER_END)
    if end < 0:
        return one_more if len(received) < HEADER_MAX_BYTES else 0
    body_at = end + len(_HEADER_END)
    enough = body_at + BODY_AWAITED_BYTES
    header = received[: end + 2]
    if _CHUNKED.search(header):
        has_ended = received.endswith(_LAST_CHUNK) or len(received) >= enough
        return 0 if has_ended else one_more
    length = _LENGTH.search(header)
    needed = min(body_at + int(length[1]), enough) if length else body_at
    return needed if len(received) < needed else 0
