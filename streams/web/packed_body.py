"""The encoding of a request's body: as it is, or gzip where the path takes it."""

from __future__ import annotations

from typing import Final

from multidict import CIMultiDictProxy

from streams.gzip_members import GzipError, TooLargeError, unpacked
from streams.web.errors import ApiError

_HEADER: Final = "Content-Encoding"
_PLAIN: Final = "identity"
_GZIP: Final = "gzip"
#: The paths that take gzip; each unpacks it beside the loop, within the limit of a plain body.
_TAKE_GZIP: Final = frozenset({"/api/v1/events", "/v1/traces", "/v1/metrics"})


def check_encoding(path: str, headers: CIMultiDictProxy[str]) -> None:
    """Check that a path takes the encoding of a body; `path` is that of the route.

    Raises:
        ApiError: It does not.
    """
    takes_gzip, encoding = path in _TAKE_GZIP, _encoding(headers)
    if encoding != _PLAIN and not (takes_gzip and encoding == _GZIP):
        others = (
            ", or as gzip with this one Content-Encoding" if takes_gzip else ", without a Content-Encoding"
        )
        raise ApiError(415, f"send the body as it is{others}")


def is_packed(headers: CIMultiDictProxy[str]) -> bool:
    """Whether a body that was let through is gzip."""
    return _encoding(headers) == _GZIP


def unpacked_body(body: bytes, most_bytes: int) -> bytes:
    """What a body of gzip contains.

    Raises:
        ApiError: The body is not gzip, or contains too much.
    """
    try:
        return unpacked(body, most_bytes)
    except TooLargeError:
        raise ApiError(
            413, f"the body unpacks to more than {most_bytes} bytes; send fewer events at once"
        ) from None
    except GzipError as fault:
        raise ApiError(400, f"the body is not gzip, as its Content-Encoding says: {fault}") from None


def _encoding(headers: CIMultiDictProxy[str]) -> str:
    return ",".join(headers.getall(_HEADER, [_PLAIN])).strip().lower()
