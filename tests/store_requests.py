"""What a ClickHouse server reads of a request and what it refuses unread, with the limits it has by default."""

from collections.abc import Mapping
from email.parser import BytesParser
from email.policy import HTTP
from typing import Final, NamedTuple

# http_max_uri_size, http_max_field_value_size (it takes one byte more) and max_query_size.
URI_BYTES: Final = 1 << 20
FIELD_BYTES: Final = (128 << 10) + 1
QUERY_BYTES: Final = 256 << 10


class Refusal(NamedTuple):
    """An answer without a result."""

    status: int
    code: str  # of ClickHouse; empty: none
    text: str


def form_of(content_type: str, body: bytes) -> dict[str, str] | None:
    """The fields of a form, which count as parameters of the URL; None for a body that is none."""
    if not content_type.startswith("multipart/form-data"):
        return None
    message = BytesParser(policy=HTTP).parsebytes(
        b"Content-Type: " + content_type.encode() + b"\r\n\r\n" + body
    )
    found: dict[str, str] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        raw = part.get_payload(decode=True)
        assert isinstance(name, str)
        assert isinstance(raw, bytes)
        found[name] = raw.decode()
    return found


def refusal(path: str, parameters: Mapping[str, str], sql: bytes) -> Refusal | None:
    """The refusal of a request; `sql` without the rows of an insert."""
    if len(path) > URI_BYTES:
        return Refusal(414, "", "Too long URI\n")
    for name, value in parameters.items():
        if len(value.encode()) > FIELD_BYTES:
            # Poco's exception, under the code of all foreign ones.
            return Refusal(500, "1000", f"Code: 1000. DB::Exception: Field value too long: {name}")
    if len(sql) > QUERY_BYTES:
        text = f"Code: 62. DB::Exception: Max query size exceeded (limit {QUERY_BYTES}). (SYNTAX_ERROR)"
        return Refusal(400, "62", text)
    return None
