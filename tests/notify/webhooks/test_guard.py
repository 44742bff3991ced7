"""Where messages may not go: no connection is even begun, whatever the address is spelled like or resolves to."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.notify.webhooks import guard
from streams.notify.webhooks.addresses import forbidden
from streams.notify.webhooks.guard import ReceiverGuard, ReceiverRefusedError, shown
from streams.notify.webhooks.sender import Sender, SendResult
from tests.notify.webhooks.conftest import Listener
from tests.notify.webhooks.forbidden import FORBIDDEN_NAMES, FORBIDDEN_URLS
from tests.notify.webhooks.names import Names

SECRET_PATH = "/services/T000/B000/hunter2?token=hunter2"


def post(sender: Sender, url: str) -> SendResult:
    return asyncio.run(sender.post(url, b"{}", {}))


def test_there_are_enough_of_them() -> None:
    assert len(set(FORBIDDEN_URLS)) + len(FORBIDDEN_NAMES) >= 80


@pytest.mark.parametrize("url", FORBIDDEN_URLS)
def test_a_forbidden_address_is_refused_and_not_connected_to(
    url: str, listener: Listener, connects: list[Any]
) -> None:
    text = url.replace("{}", str(listener.port))
    answer = post(Sender(ReceiverGuard(), timeout_ms=2_000), text + SECRET_PATH if text else text)
    assert answer.verdict == "refused"
    assert connects == []
    assert listener.connections == 0
    assert "hunter2" not in answer.detail


@pytest.mark.parametrize("name", FORBIDDEN_NAMES)
def test_a_name_that_leads_inside_is_refused_and_not_connected_to(
    name: str, listener: Listener, connects: list[Any]
) -> None:
    names = Names({name: [FORBIDDEN_NAMES[name]]})
    answer = post(
        Sender(ReceiverGuard(), timeout_ms=2_000, resolver=names),
        f"https://{name}:{listener.port}{SECRET_PATH}",
    )
    assert names.asked == [name]
    assert (answer.verdict, connects, listener.connections) == ("refused", [], 0)
    assert answer.detail.startswith(
        f"https://{name}:{listener.port} leads to an address that is not public ("
    )
    assert "hunter2" not in answer.detail


def test_a_name_that_means_something_else_at_the_next_look_up(
    listener: Listener, connects: list[Any]
) -> None:
    url = f"https://rebind.example.com:{listener.port}{SECRET_PATH}"
    names = Names({"rebind.example.com": [["8.8.8.8"], ["127.0.0.1"]]})
    sender = Sender(ReceiverGuard(), timeout_ms=2_000, resolver=names)
    first, second = post(sender, url), post(sender, url)
    assert first == SendResult("retry", 0, "no connection: Connection refused")
    assert [address[0] for address in connects] == ["8.8.8.8"]
    assert second.verdict == "refused"
    assert listener.connections == 0


def test_a_second_address_of_a_name_is_judged_like_the_first(listener: Listener, connects: list[Any]) -> None:
    names = Names({"two.example.com": [["8.8.8.8", "127.0.0.1"]]})
    sender = Sender(ReceiverGuard(), timeout_ms=2_000, resolver=names)
    answer = post(sender, f"https://two.example.com:{listener.port}/")
    assert answer.verdict == "refused"
    assert [address[0] for address in connects] == ["8.8.8.8"]
    assert listener.connections == 0


def test_the_check_of_the_socket_is_what_holds_them_back(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "forbidden", lambda _: None)
    names = Names({"loopback.example.com": [["127.0.0.1"]], "six.example.com": [["::1"]]})
    sender = Sender(ReceiverGuard(), timeout_ms=2_000, resolver=names)
    for host in ("127.0.0.1", "0.0.0.0", "[::1]", "loopback.example.com", "six.example.com"):
        assert post(sender, f"https://{host}:{listener.port}/").verdict == "retry"
    assert listener.connections == 5


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        ("http://hooks.example.com/x", "http://hooks.example.com: only https is accepted"),
        (
            "https://hooks.example.com:22/x",
            "https://hooks.example.com:22: only ports 443 and 8443 are accepted",
        ),
        (
            "https://hooks.example.com:0/x",
            "https://hooks.example.com:0: only ports 443 and 8443 are accepted",
        ),
        (
            "https://me:hunter2@hooks.example.com/x",
            "https://hooks.example.com: a user or password in the address is not accepted",
        ),
        ("mailto:ada@example.com", "the address is no https URL"),
        ("https://hooks.example.com/a b", "the address is too long or holds spaces"),
    ],
)
def test_a_refusal_says_why(url: str, detail: str) -> None:
    with pytest.raises(ReceiverRefusedError) as refused:
        ReceiverGuard().check(url)
    assert str(refused.value).startswith(detail)


@pytest.mark.parametrize("url", ["https://hooks.example.com/x", "https://m\u00fcnchen.example.com:8443/x"])
def test_https_on_its_ports_passes(url: str) -> None:
    assert not ReceiverGuard().check(url).trusted


@pytest.mark.parametrize(
    ("allowed", "url", "passes"),
    [
        ("relay", "http://relay/x", True),
        ("relay", "http://relay:9000/x", True),
        ("relay:9000", "http://relay:9000/x", True),
        ("relay:9000", "http://relay:9001/x", False),
        ("relay:9000", "https://RELAY.:9000/x", True),
        ("relay", "http://relay.example.com/x", False),
        ("example.com", "http://relay.example.com/x", False),
        (" a , 10.0.0.5:8080 ,[fd00::5]:80", "http://10.0.0.5:8080/x", True),
        (" a , 10.0.0.5:8080 ,[fd00::5]:80", "http://[fd00:0::5]/x", True),
        ("10.0.0.5", "http://10.0.0.6/x", False),
    ],
)
def test_only_a_listed_host_may_be_private_and_plain(allowed: str, url: str, passes: bool) -> None:
    if passes:
        assert ReceiverGuard(allowed).check(url).trusted
    else:
        with pytest.raises(ReceiverRefusedError):
            ReceiverGuard(allowed).check(url)


@pytest.mark.parametrize("entry", ["a/b", "http://a", "a@b", "a b", "0x7f.1", "a:99999"])
def test_a_listed_host_must_be_one(entry: str) -> None:
    with pytest.raises(ValueError, match="expected host or host:port"):
        ReceiverGuard(f"ok,{entry}")


def test_a_socket_of_a_listed_host_goes_anywhere() -> None:
    info = (socket.AF_INET, socket.SOCK_STREAM, 0, "", ("10.0.0.5", 80))
    ReceiverGuard("relay").check("http://relay/").open_socket(info).close()
    with pytest.raises(ReceiverRefusedError, match="private"):
        ReceiverGuard().check("https://relay/").open_socket(info)


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1111", "2a00:1450::1"])
def test_public_addresses_pass(address: str) -> None:
    assert forbidden(address) is None


@pytest.mark.parametrize("address", ["", "localhost", "127.1", "1.2.3.4.5"])
def test_what_is_no_address_is_forbidden(address: str) -> None:
    assert forbidden(address) == "unreadable"


@given(st.ip_addresses())
def test_nothing_passes_that_python_calls_special(address: Any) -> None:
    if forbidden(str(address)) is None:
        assert address.is_global
        assert not any((address.is_multicast, address.is_loopback, address.is_private, address.is_reserved))


@given(
    st.text(st.characters(exclude_categories=()), max_size=60)
    | st.from_regex(r"https?://.{0,40}", fullmatch=True)
)
def test_any_text_is_either_refused_or_passes_and_shows_no_path(text: str) -> None:
    try:
        where = ReceiverGuard().check(text).shown
    except ReceiverRefusedError:
        where = shown(text) or ""
    assert where.count("/") in (0, 2)
    assert not set(where) & set("?#@ \n\\")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://hooks.slack.com/services/T/B/x", "https://hooks.slack.com"),
        ("https://u:p@hooks.example.com:8443/x?y", "https://hooks.example.com:8443"),
        ("http://[fd00:0:0::5]:80/x", "http://[fd00::5]:80"),
        ("hooks.example.com/secret", None),
        ("mailto:ada@example.com", None),
    ],
)
def test_what_may_be_seen_of_a_url(url: str, expected: str | None) -> None:
    assert shown(url) == expected
