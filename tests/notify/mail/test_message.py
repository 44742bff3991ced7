"""E-mail about alerts: what it says, and that no name says more."""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage

import pytest

from streams.engine.alerts.alert import Alert
from streams.notify.channels.email import SHOWN_AT_MOST, mail_message
from streams.notify.links import Links
from streams.notify.mailer import domain_of
from tests.notify.scripted_sender import NOW_MS, an_alert, resolved

LINKS = Links("https://fare.example.com", "https://docs.example.com")
HEADERS = [
    "From", "To", "Subject", "Date", "Message-ID", "References", "Auto-Submitted", "MIME-Version", "Content-Type",
]  # fmt: skip


def made(*alerts: Alert, links: Links = LINKS, note: str = "") -> EmailMessage:
    """The message as a mail program reads it from the wire."""
    message = mail_message(
        alerts,
        links,
        sender="meter@fare.example.com",
        to="ada@example.com",
        message_id="msg_1",
        now_ms=NOW_MS,
        note=note,
    )
    raw = message.as_bytes()
    raw.decode("ascii")
    assert b"\n" not in raw.replace(b"\r\n", b""), "every line ends as SMTP asks"
    read = email.message_from_bytes(raw, policy=email.policy.default)
    assert isinstance(read, EmailMessage)
    assert read.keys() == HEADERS
    assert not read.defects
    return read


def content(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part is not None
    text: str = part.get_content()
    return text


def test_a_message_has_a_subject_a_sentence_figures_and_links() -> None:
    message = made(an_alert())
    assert message["Subject"] == "\U0001f6a8 job-1: Runaway burn (page)"
    assert (message["From"], message["To"]) == ("meter@fare.example.com", "ada@example.com")
    assert message["Message-ID"] == "<msg_1@fare.example.com>"
    assert message["Date"] == "Fri, 15 Jan 2027 08:00:00 +0000"
    plain, html = content(message, "plain"), content(message, "html")
    for text in ("job-1 burns $786.56/h", "Expected: $98.32/h (8.2x)", "Owner: ada"):
        assert text in plain
    assert "<td>$98.32/h (8.2x)</td>" in html
    assert f"Open: https://fare.example.com/?at={NOW_MS}#/job/job-1" in plain
    assert f"<a href='https://fare.example.com/?at={NOW_MS}#/job/job-1'>Open</a>" in html
    assert "http" not in content(made(an_alert(), links=Links()), "plain")


def test_firing_and_resolved_are_one_thread() -> None:
    assert made(an_alert())["References"] == made(resolved())["References"]


def test_a_group_shows_some_and_names_the_rest() -> None:
    alerts = [an_alert(f"job-{number}") for number in range(300)]
    message = made(*alerts, note="still firing")
    assert message["Subject"] == "\U0001f6a8 300 firing: owner ada, project p"
    plain = content(message, "plain")
    assert plain.startswith("still firing")
    assert plain.count("  al_") == SHOWN_AT_MOST
    assert "and 280 more: job-20, " in plain
    assert len(message.as_bytes()) < 100_000


@pytest.mark.parametrize(
    "name",
    [
        "ada\r\nBcc: eve@evil.example",
        "ada\nSubject: all is well",
        "a\r\n\r\n<h1>body</h1>",
        "\u2028Bcc: eve",
        "\x00\x0b\x0c\x85",
        "=?utf-8?q?Bcc:_eve?=",
        "<script>alert(1)</script>'\"&",
        "\ud800\u202e",
        "x" * 256,
        ".\r\nQUIT",
    ],
)
def test_no_name_begins_a_header_a_line_or_an_element(name: str) -> None:
    message = made(an_alert(name, owner=name, team=name, project=name, summary=f"{name} burns", rule=name))
    plain, html = content(message, "plain"), content(message, "html")
    usual = made(an_alert(rule="another"))
    assert plain.count("\n") == content(usual, "plain").count("\n")
    assert html.count("<") == content(usual, "html").count("<")
    assert message["To"] == "ada@example.com"
    assert made(*[an_alert(name, owner=name, project=name)] * 2)["To"] == "ada@example.com"


@pytest.mark.parametrize(
    ("address", "domain"),
    [
        ("ada@example.com", "example.com"),
        ("a.b+c@Sub.Example.com", "sub.example.com"),
        ("o'neil@example.com", "example.com"),
        ("root@localhost", "localhost"),
        ("", None),
        ("ada", None),
        ("ada@", None),
        ("@example.com", None),
        ("ada@example.com\r\nBcc: eve@evil.example", None),
        ("ada@example.com\n", None),
        ("ada@example.com, eve@evil.example", None),
        ("ada@example.com;eve@evil.example", None),
        ("Ada <ada@example.com>", None),
        ("<ada@example.com>", None),
        ('"a b"@example.com', None),
        ("ada@example.com> BODY=8BITMIME", None),
        ("eve@evil.example@example.com", None),
        ("ada@-example.com", None),
        ("ada@exa mple.com", None),
        ("ada@[127.0.0.1]", None),
        ("\u00e4da@example.com", None),
        (".ada@example.com", None),
        ("a" * 65 + "@example.com", None),
        ("a@" + ("b" * 60 + ".") * 4 + "example.com", None),
    ],
)
def test_one_plain_address_and_nothing_else(address: str, domain: str | None) -> None:
    assert domain_of(address) == domain
