"""Decides which addresses a message may go to: checks the URL first, and each IP address when a socket is opened.

Its messages contain only scheme, host and port of a URL.
"""

import ipaddress
import re
import socket
from typing import Any, Final, NamedTuple

from yarl import URL

from streams.notify.webhooks.addresses import forbidden

PORTS: Final = frozenset((443, 8443))
_LONGEST: Final = 2_048
# URL parsers disagree about spaces, control characters and backslashes.
_UNCLEAN: Final = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029]")
_NAME: Final = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?")
# What the resolver would read as an IPv4 address, in any of its legacy spellings.
_NUMBER_AT_END: Final = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)\.?")

AddrInfo = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, tuple[Any, ...]]


class ReceiverRefusedError(Exception):
    """The address must not be reached, now or later; the text may be shown to users."""


class Destination(NamedTuple):
    """A URL that passed the checks. Only `open_socket` opens sockets to it."""

    url: URL
    shown: str
    trusted: bool  # the operator allowed the host: its IP addresses are not checked

    def open_socket(self, info: AddrInfo) -> socket.socket:
        """Open the socket for one resolved address, the very one that is then connected to.

        Checked here and not at the lookup: a name may resolve differently in between.

        Raises:
            ReceiverRefusedError: The IP address is not public.
        """
        family, kind, protocol, _, address = info
        found = None if self.trusted else forbidden(str(address[0]))
        if found is not None:
            raise ReceiverRefusedError(
                f"{self.shown} leads to an address that is not public ({found}); "
                "an operator can allow the host by alerts.allow_hosts"
            )
        return socket.socket(family, kind, protocol)


class ReceiverGuard:
    """Allows https to public addresses, and what the operator lists in addition."""

    def __init__(self, allow_hosts: str = "") -> None:
        """Parse `host` or `host:port`, separated by commas; a listed host may be private and use plain http.

        Raises:
            ValueError: An entry is neither.
        """
        entries = (entry.strip() for entry in allow_hosts.split(","))
        self._allowed = frozenset(_host_port(entry) for entry in entries if entry)

    def check(self, text: str) -> Destination:
        """Check everything about the URL that needs no lookup.

        Raises:
            ReceiverRefusedError: The URL is not allowed.
        """
        url = _parsed(text)
        if url.scheme not in ("http", "https"):
            raise ReceiverRefusedError("the address is no https URL")
        host = _host(url)
        if host is None:
            raise ReceiverRefusedError("the address has no usable host name")
        where = _shown(url, host)
        if url.user is not None or url.password is not None or "@" in url.raw_authority:
            raise ReceiverRefusedError(f"{where}: a user or password in the address is not accepted")
        trusted = (host, None) in self._allowed or (host, url.port) in self._allowed
        if not trusted and (host == "localhost" or host.endswith(".localhost")):
            raise ReceiverRefusedError(
                f"{where}: the name means this machine"
            )  # always (RFC 6761), whatever a resolver returns
        if not trusted and url.scheme != "https":
            raise ReceiverRefusedError(f"{where}: only https is accepted")
        if not trusted and url.port not in PORTS:
            raise ReceiverRefusedError(f"{where}: only ports 443 and 8443 are accepted")
        return Destination(url, where, trusted)


def shown(text: str) -> str | None:
    """`scheme://host` (and an explicit port): all of a URL that may be shown. None if it has no such part."""
    try:
        url = _parsed(text)
    except ReceiverRefusedError:
        return None
    host = _host(url)
    return _shown(url, host) if host is not None and url.scheme in ("http", "https") else None


def _parsed(text: str) -> URL:
    if len(text) > _LONGEST or _UNCLEAN.search(text):
        raise ReceiverRefusedError(
            "the address is too long or holds spaces, control characters or backslashes"
        )
    try:
        return URL(text)  # the parser that the request uses, too
    except ValueError:
        # Its message may contain the address.
        raise ReceiverRefusedError("the address is no URL") from None


def _host(url: URL) -> str | None:
    """The host in the form for comparison and display; None if there is none, or if it is a disguised number."""
    try:
        host = (url.raw_host or "").lower()
    except ValueError:
        return None
    if ":" in host or _NUMBER_AT_END.fullmatch(host):
        try:
            return str(ipaddress.ip_address(host)) if "%" not in host else None
        except ValueError:
            return None
    return host.removesuffix(".") if _NAME.fullmatch(host) else None


def _shown(url: URL, host: str) -> str:
    port = "" if url.explicit_port is None else f":{url.explicit_port}"
    return f"{url.scheme}://[{host}]{port}" if ":" in host else f"{url.scheme}://{host}{port}"


def _host_port(entry: str) -> tuple[str, int | None]:
    try:
        url = URL(f"http://{entry}/")
        host = _host(url)
    except ValueError:
        host = None
    if host is None or "/" in entry or "@" in entry or _UNCLEAN.search(entry):
        raise ValueError(f"expected host or host:port, got `{entry}`")
    return host, url.explicit_port
