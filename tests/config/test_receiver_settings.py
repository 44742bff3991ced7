"""Settings of receivers: what is refused, in words and without a secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from streams.config.load import SettingsError, load_settings

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
    assert settings.alerts.sends


def test_a_directory_of_secrets_must_be_there(tmp_path: Path) -> None:
    assert "expected a directory" in refused("TRAINFARE_ALERTS_OWNER_SECRETS_DIR", str(tmp_path / "none"))
    found = load_settings({"TRAINFARE_ALERTS_OWNER_SECRETS_DIR": str(tmp_path)}, Path("/dev/null"))
    assert found.alerts.sends
    assert not load_settings({}, Path("/dev/null")).alerts.sends
