"""Seals the addresses of receivers in records of `controls`, so that a log, or a copy of its directory, gives none.

AES-256-SIV: by one key the same address is always the same text, so that what two owners share is still seen to be shared,
and a folder that is applied again changes nothing. The text says which key opens it, and its length how long the address is.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from streams.errors import TrainfareError, WrongUseError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

#: Fields of records that are addresses: of owners, of teams, of the actions of budgets.
SEALED_FIELDS: Final = ("webhook", "slack", "email")
_MARK: Final = "sealed:"
_KEY_BYTES: Final = 64
_ID_BYTES: Final = 4
_PURPOSE: Final = b"trainfare addresses at rest"


class SealedAddressError(TrainfareError):
    """An address cannot be opened here; the message may be shown."""


def is_sealed(address: str) -> bool:
    """Whether this is the text of a sealed address."""
    return address.startswith(_MARK)


def has_sealed(value: Mapping[str, Any]) -> bool:
    """Whether one of the addresses of a record is sealed."""
    return any(isinstance(each := value.get(field), str) and is_sealed(each) for field in SEALED_FIELDS)


def has_plain(value: Mapping[str, Any]) -> bool:
    """Whether one of the addresses of a record is not sealed."""
    return any(
        isinstance(each := value.get(field), str) and each.strip() and not is_sealed(each)
        for field in SEALED_FIELDS
    )


def key_id_of(sealed: str) -> str:
    """Which key opens a sealed text."""
    return sealed.removeprefix(_MARK).partition(":")[0][: 2 * _ID_BYTES]


def cannot_open(sealed: str) -> str:
    """Why a sealed text is of no use without its key."""
    return f"it is sealed by the key {key_id_of(sealed)}, which at_rest.key does not have"


class AddressKeys:
    """Keys by which addresses are sealed and opened: the first seals, all open.

    Args:
        text: One or several keys, separated by white space.

    Raises:
        WrongUseError: The library is not installed.
    """

    def __init__(self, text: str) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        except ImportError as fault:
            raise WrongUseError(
                f"at_rest.key needs {fault.name}, which is not installed: pip install 'trainfare[sealed]'"
            ) from fault
        self._by_id: dict[str, AESSIV] = {}
        for given in text.split():
            made = HKDF(SHA256(), _KEY_BYTES + _ID_BYTES, None, _PURPOSE).derive(given.encode())
            self._by_id.setdefault(made[_KEY_BYTES:].hex(), AESSIV(made[:_KEY_BYTES]))
        self._newest = next(iter(self._by_id))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._by_id)})"

    def sealed(self, field: str, address: str) -> str:
        """The text of an address of a field, by the first key; one that another key has sealed is sealed anew.

        Raises:
            SealedAddressError: It is sealed by a key that is not here.
        """
        plain = self.opened(field, address)
        box = self._by_id[self._newest].encrypt(plain.encode("utf-8", "surrogatepass"), [field.encode()])
        return f"{_MARK}{self._newest}:{base64.urlsafe_b64encode(box).rstrip(b'=').decode()}"

    def opened(self, field: str, address: str) -> str:
        """The address of a field: what is not sealed is returned as it is.

        Raises:
            SealedAddressError: No key opens it.
        """
        if not is_sealed(address):
            return address
        from cryptography.exceptions import InvalidTag

        key_id, _, text = address.removeprefix(_MARK).partition(":")
        key = self._by_id.get(key_id)
        if key is None:
            raise SealedAddressError(cannot_open(address))
        try:
            box = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            return key.decrypt(box, [field.encode()]).decode("utf-8", "surrogatepass")
        except (InvalidTag, binascii.Error, ValueError):
            raise SealedAddressError("it was altered after it was sealed, or is of another field") from None

    def sealed_value(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a record with its addresses sealed; those of an envelope stand in `data`.

        Raises:
            SealedAddressError: One is sealed by a key that is not here.
        """
        found = dict(value)
        for field in SEALED_FIELDS:
            if isinstance(each := found.get(field), str) and each.strip():
                found[field] = self.sealed(field, each.strip())
        if isinstance(inner := found.get("data"), dict):
            found["data"] = self.sealed_value(inner)
        return found

    def sealed_record(self, record: bytes) -> bytes:
        """A record of `controls` with its addresses sealed; what is no object of JSON is returned as it is.

        Raises:
            SealedAddressError: One is sealed by a key that is not here.
        """
        try:
            value = msgspec.json.decode(record)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return record
        if not isinstance(value, dict) or (sealed := self.sealed_value(value)) == value:
            return record
        return msgspec.json.encode(sealed)


def address_keys(text: str | None) -> AddressKeys | None:
    """The keys of the settings; None: addresses are kept as they come.

    Raises:
        WrongUseError: The library is not installed.
    """
    return None if text is None else AddressKeys(text)
