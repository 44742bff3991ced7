"""The contract of channels, held by each that is registered, with a real server behind it."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from streams.clock import ManualClock
from streams.engine.alerts.alert import ADDRESS_KINDS, Address
from streams.notify import channels
from streams.notify.channels.channel import Channel, ChannelTools
from streams.notify.channels.channels import CHANNEL_OF, CHANNELS, Channels, can_send
from streams.notify.delivery import Delivery, Receiver
from streams.notify.firing import FiringAlerts
from streams.notify.options import NotifierOptions
from streams.notify.receivers import Receivers
from streams.notify.webhooks.sender import SendResult
from tests.notify.channels.servers import MailServer, WebServer, mail_at, web_at
from tests.notify.scripted_sender import NOW_MS, SECRET, SHARD, an_alert

HUNTER = "hunter2"
_DRAWN = re.compile(rb"={15}[0-9]+==")
KINDS = [channel.traits.kind for channel in CHANNELS]


class Way(NamedTuple):
    """How a test reaches a channel: its server, and an address there with the options that lead to it."""

    at: Callable[[Path], AbstractContextManager[WebServer | MailServer]]
    options: Callable[[WebServer | MailServer], NotifierOptions]
    address: Callable[[WebServer | MailServer], str]
    forbidden: str  # an address that the options do not allow


def _hook(server: WebServer | MailServer) -> str:
    return f"http://{server.host_port}/{HUNTER}"


def _owners(server: WebServer | MailServer) -> NotifierOptions:
    return NotifierOptions(webhook_secret=SECRET, allow_hosts=server.host_port)


def _mailing(server: WebServer | MailServer) -> NotifierOptions:
    assert isinstance(server, MailServer)
    return NotifierOptions(smtp=server.options)


#: A new channel gets a line here.
WAYS = {
    "webhook": Way(web_at, _owners, _hook, "http://127.0.0.1:9/hunter2"),
    "slack": Way(web_at, _owners, _hook, "http://127.0.0.1:9/hunter2"),
    "email": Way(
        mail_at,
        _mailing,
        lambda _: "hunter2@example.com",
        "hunter2@elsewhere.example",
    ),
    "alertmanager": Way(
        web_at,
        lambda server: NotifierOptions(alertmanager_urls=(f"http://{server.host_port}",)),
        lambda server: f"http://{server.host_port}",
        "http://127.0.0.1:9",
    ),
}


@contextlib.contextmanager
def reached(kind: str, folder: Path) -> Iterator[tuple[WebServer | MailServer, NotifierOptions, str]]:
    way = WAYS[kind]
    with way.at(folder) as server:
        yield server, way.options(server), way.address(server)


def to(kind: str, url: str) -> Delivery:
    channel = CHANNEL_OF[kind]
    return Delivery(an_alert(), SHARD, channel.name_of(url), Receiver(channel.traits, url))


def tried(kind: str, options: NotifierOptions, url: str) -> SendResult:
    async def go() -> SendResult:
        return await Channels(options, ManualClock(NOW_MS), FiringAlerts()).send(to(kind, url))

    return asyncio.run(go())


def test_each_file_of_the_package_is_a_registered_channel() -> None:
    folder = Path(str(channels.__file__)).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__", "channel", "channels"}
    assert {channel.__module__.rpartition(".")[2] for channel in CHANNELS} == files
    assert set(KINDS) == set(WAYS)
    assert len(CHANNEL_OF) == len(CHANNELS), "two of one name"
    assert set(ADDRESS_KINDS) <= set(KINDS), "an owner's address that nothing sends to"


def test_nothing_else_of_the_notifier_knows_a_channel_by_its_name() -> None:
    folder = Path(str(channels.__file__)).parents[1]
    for path in folder.rglob("*.py"):
        if path.parent.name == "channels":
            continue
        literals = {
            node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)
        }
        assert not literals & set(KINDS), path


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_rendered_is_what_arrives(kind: str, tmp_path: Path) -> None:
    with reached(kind, tmp_path) as (server, options, url):
        assert tried(kind, options, url).verdict == "delivered"
        rendered = CHANNEL_OF[kind](ChannelTools(options, ManualClock(NOW_MS), FiringAlerts())).render(
            to(kind, url)
        )
    # The boundary of a mail's parts is drawn for each.
    assert [_DRAWN.sub(b"", got) for got in server.got] == [_DRAWN.sub(b"", rendered)]
    assert b"job-1" in rendered


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("answer", "verdict"), [("later", "retry"), ("never", "failed")])
def test_what_may_pass_is_retried_and_a_refusal_is_final(
    kind: str, answer: str, verdict: str, tmp_path: Path
) -> None:
    with reached(kind, tmp_path) as (server, options, url):
        server.answer = answer
        found = tried(kind, options, url)
    assert (found.verdict, found.http_status) == (verdict, server.status_of[answer])
    assert HUNTER not in found.detail


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_gone_is_retried(kind: str, tmp_path: Path) -> None:
    with reached(kind, tmp_path) as (_, options, url):
        pass
    found = tried(kind, options, url)
    assert (found.verdict, found.http_status) == ("retry", 0)
    assert HUNTER not in found.detail


@pytest.mark.parametrize("kind", KINDS)
def test_an_address_that_is_not_allowed_gets_nothing(kind: str, tmp_path: Path) -> None:
    with reached(kind, tmp_path) as (server, options, _):
        found = tried(kind, options, WAYS[kind].forbidden)
    assert (found.verdict, server.got) == ("refused", [])
    assert HUNTER not in found.detail


@pytest.mark.parametrize("kind", KINDS)
def test_no_name_shows_more_of_an_address_than_its_host(kind: str) -> None:
    for url in ("https://hooks.example.com/hunter2?hunter2", "hunter2@example.com", "hunter2", ""):
        name = CHANNEL_OF[kind].name_of(url)
        assert name
        assert HUNTER not in name
        assert HUNTER not in repr(to(kind, url))


@pytest.mark.parametrize("kind", KINDS)
def test_the_settings_that_configure_it_let_its_addresses_get_messages(kind: str, tmp_path: Path) -> None:
    channel = CHANNEL_OF[kind]
    with reached(kind, tmp_path) as (_, options, url):
        assert can_send(options)
        assert channel.unsupported(options) == ""
        owners = [Address(kind, url)] if kind in ADDRESS_KINDS else []
        found = Receivers(lambda _: owners, options).of("ada")
    assert channel.name_of(url) in found
    assert (channel.name_of(url) in Receivers(lambda _: [], options).peers) == bool(channel.peers(options))
    assert not channel.is_configured(NotifierOptions())


def test_a_channel_that_lacks_a_part_of_the_contract_cannot_be_made() -> None:
    class Mute(Channel):
        traits = CHANNELS[0].traits

    assert inspect.isabstract(Mute)
    for channel in CHANNELS:
        assert not inspect.isabstract(channel)
