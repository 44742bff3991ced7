"""Settings of receivers: what is refused, in words and without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.config.load import SettingsError, load_settings
from streams.notify.channels.channels import can_send
from streams.notify.from_settings import notifier_options

SECRET = "whsec_" + "A" * 32


def refused(name: str, value: str) -> str:
    with pytest.raises(SettingsError) as found:
        load_settings({name: value}, Path("/dev/null"))
    return str(found.value)


@pytest.mark.parametrize("name", ["TRAINFARE_WEB_PUBLIC_URL", "TRAINFARE_ALERTS_DOCS_URL"])
@pytest.mark.parametrize(
    "value",
    [
        "fare.example.com",
        "javascript:alert(1)",
        "https://ada@x/",
        "https://x/?a=1",
        "https://x/#/job",
        "https://x /",
    ],
)
def test_links_begin_with_a_plain_address(name: str, value: str) -> None:
    assert "expected an address like https://trainfare.example.com" in refused(name, value)


def test_a_slash_at_its_end_is_not_doubled() -> None:
    settings = load_settings({"TRAINFARE_WEB_PUBLIC_URL": "https://x:8443/fare/"}, Path("/dev/null"))
    assert settings.web.public_url == "https://x:8443/fare"


@pytest.mark.parametrize("value", [f"{SECRET} hunter2", f"{SECRET} {SECRET} {SECRET}", "whsec_hunter2"])
def test_a_secret_that_cannot_sign_is_not_shown(value: str) -> None:
    text = refused("TRAINFARE_ALERTS_WEBHOOK_SECRET", value)
    assert SECRET not in text
    assert "hunter2" not in text


def test_two_secrets_at_once_are_accepted() -> None:
    settings = load_settings({"TRAINFARE_ALERTS_WEBHOOK_SECRET": f"{SECRET} {SECRET}"}, Path("/dev/null"))
    assert can_send(notifier_options(settings))


def test_a_directory_of_secrets_must_be_there(tmp_path: Path) -> None:
    assert "expected a directory" in refused("TRAINFARE_ALERTS_OWNER_SECRETS_DIR", str(tmp_path / "none"))
    found = load_settings({"TRAINFARE_ALERTS_OWNER_SECRETS_DIR": str(tmp_path)}, Path("/dev/null"))
    assert can_send(notifier_options(found))
    assert not can_send(notifier_options(load_settings({}, Path("/dev/null"))))


SMTP = {"TRAINFARE_ALERTS_SMTP_HOST": "smtp.example.com", "TRAINFARE_ALERTS_SMTP_FROM": "fare@example.com"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"FROM": ""}, "alerts.smtp_from"),
        ({"FROM": "Fare <fare@example.com>"}, "one plain address"),
        ({"FROM": "fare@example.com\nBcc: eve@evil.example"}, "one plain address"),
        ({"HOST": "smtp://x"}, "expected host or host:port"),
        ({"USER": "fare"}, "alerts.smtp_password"),
        ({"USER": "fare", "PASSWORD": "hunter2", "SECURITY": "none"}, "whose password it would show"),
        ({"CA_LOCATION": "/no/such/file"}, "alerts.smtp_ca_location"),
    ],
)
def test_a_mail_server_is_checked_as_a_whole(more: dict[str, str], expected: str) -> None:
    env = SMTP | {f"TRAINFARE_ALERTS_SMTP_{name}": value for name, value in more.items()}
    with pytest.raises(SettingsError) as found:
        load_settings(env, Path("/dev/null"))
    assert expected in str(found.value)
    assert "hunter2" not in str(found.value)


@pytest.mark.parametrize(
    ("host", "security", "found"),
    [
        ("smtp.example.com", "starttls", ("smtp.example.com", 587)),
        ("smtp.example.com", "tls", ("smtp.example.com", 465)),
        ("smtp.example.com", "none", ("smtp.example.com", 25)),
        ("smtp.example.com:2525", "starttls", ("smtp.example.com", 2525)),
        ("[::1]", "starttls", ("::1", 587)),
        ("[::1]:25", "starttls", ("::1", 25)),
    ],
)
def test_the_port_of_a_mail_server(host: str, security: str, found: tuple[str, int]) -> None:
    env = SMTP | {"TRAINFARE_ALERTS_SMTP_HOST": host, "TRAINFARE_ALERTS_SMTP_SECURITY": security}
    settings = load_settings(env, Path("/dev/null"))
    assert settings.alerts.smtp_host_port == found
    assert can_send(notifier_options(settings))


@pytest.mark.parametrize("value", ["am-1:9093", "http://ada@am-1:9093", "http://am-1:9093?x=1"])
def test_an_alertmanager_is_a_plain_address(value: str) -> None:
    assert "expected an address like" in refused("TRAINFARE_ALERTS_ALERTMANAGER_URLS", value)
