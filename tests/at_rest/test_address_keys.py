"""Addresses are sealed by the first key, opened by all, and by no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.events import ControlEvent
from streams.address_keys import (
    AddressKeys,
    SealedAddressError,
    address_keys,
    has_plain,
    has_sealed,
    is_sealed,
)
from streams.config.load import SettingsError, load_settings
from streams.engine.alerts.alert import Address
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.notify.opened_addresses import opened_addresses
from streams.notify.options import NotifierOptions
from streams.notify.receivers import Receivers
from streams.worker.newest_controls import NewestControls
from tests.logged import events, logged

OLD, NEW = "a" * 32, "b" * 40
HOOK = "https://hooks.slack.com/services/T0/B0/secret"


def test_what_is_sealed_says_nothing_and_is_opened_by_its_key_alone() -> None:
    keys = AddressKeys(NEW)
    sealed = keys.sealed("slack", HOOK)
    assert is_sealed(sealed)
    assert "hooks" not in sealed
    assert keys.opened("slack", sealed) == HOOK
    assert NEW not in repr(keys)
    with pytest.raises(
        SealedAddressError, match=r"sealed by the key [0-9a-f]{8}, which at_rest.key does not have"
    ):
        AddressKeys(OLD).opened("slack", sealed)


@pytest.mark.parametrize("change", [lambda text: text[:-2] + "AA", lambda text: text + "*", lambda text: text[:20], lambda text: text + "A" * 8])  # fmt: skip
def test_what_was_altered_is_not_opened(change: Any) -> None:
    keys = AddressKeys(NEW)
    with pytest.raises(SealedAddressError, match="altered after it was sealed"):
        keys.opened("slack", change(keys.sealed("slack", HOOK)))


def test_a_sealed_address_of_one_field_is_none_of_another() -> None:
    """Else whoever may write records could have a Slack address shown by sending to it as a webhook."""
    keys = AddressKeys(NEW)
    with pytest.raises(SealedAddressError, match="of another field"):
        keys.opened("webhook", keys.sealed("slack", HOOK))


def test_the_same_is_sealed_alike_and_what_is_sealed_stays_so() -> None:
    keys = AddressKeys(NEW)
    sealed = keys.sealed("slack", HOOK)
    assert keys.sealed("slack", HOOK) == keys.sealed("slack", sealed) == sealed
    assert keys.sealed("slack", HOOK + "x") != sealed


def test_an_old_key_reads_and_the_new_one_writes() -> None:
    before = AddressKeys(OLD).sealed("email", "ada@example.com")
    both = AddressKeys(f"{NEW}\n{OLD}\n")
    assert both.opened("email", before) == "ada@example.com"
    after = both.sealed("email", before)
    assert after == AddressKeys(NEW).sealed("email", "ada@example.com") != before


@pytest.mark.parametrize(
    "record",
    [
        {"kind": "owner", "name": "ada", "slack": HOOK, "webhook": HOOK, "email": "ada@example.com"},
        {"kind": "team", "name": "vision", "webhook": f"  {HOOK} ", "escalate": ["ada"]},
        {"kind": "budget", "name": "b", "usd": 5, "webhook": HOOK},
        {"specversion": "1.0", "data": {"kind": "owner", "name": "ada", "slack": HOOK}},
    ],
)
def test_every_address_of_a_record_is_sealed_and_nothing_else(record: dict[str, Any]) -> None:
    keys = AddressKeys(NEW)
    sealed = keys.sealed_record(json.dumps(record).encode())
    assert b"hooks.slack.com" not in sealed
    assert b"ada@example.com" not in sealed
    found = json.loads(sealed)
    inner, given = found.get("data", found), record.get("data", record)
    assert has_sealed(inner)
    assert not has_plain(inner)
    opened = {name: keys.opened(name, each) if name in ("webhook", "slack", "email") else each for name, each in inner.items()}  # fmt: skip
    assert opened == {name: each.strip() if isinstance(each, str) else each for name, each in given.items()}


@pytest.mark.parametrize("record", [b"null", b"[1]", b"{", b'{"kind":"silence","team":"a"}', b'{"slack":5}', b'{"slack":""}'])  # fmt: skip
def test_a_record_without_an_address_is_passed_on_as_it_is(record: bytes) -> None:
    assert AddressKeys(NEW).sealed_record(record) is record


def test_a_key_is_long_and_not_shown(tmp_path: Path) -> None:
    for given in ("short", " ", f"{NEW} short"):
        with pytest.raises(SettingsError) as fault:
            load_settings({"TRAINFARE_AT_REST_KEY": given})
        assert [each.setting for each in fault.value.faults] == ["at_rest.key"]
        assert NEW not in str(fault.value)
    path = tmp_path / "keys"
    path.write_text(f"{NEW}\n{OLD}\n")
    found = load_settings({"TRAINFARE_AT_REST_KEY_FILE": str(path)}).at_rest.keys
    assert found is not None
    assert found.split() == [NEW, OLD]
    assert address_keys(load_settings({}).at_rest.keys) is None


def owner(name: str, slack: str) -> ControlEvent:
    return ControlEvent("publish", name, 1, "owner", name, {"slack": slack})


def newest(keys: AddressKeys | None, *events: ControlEvent) -> NewestControls:
    found = {f"owner/{each.name}".encode(): each for each in events}
    return NewestControls(ReferenceLog(PriceBook.empty(), found), lambda: 1, keys)


def test_a_worker_opens_what_its_keys_open() -> None:
    keys = AddressKeys(NEW)
    sealed = keys.sealed("slack", HOOK)
    assert newest(keys, owner("ada", sealed)).of("ada") == [Address("slack", HOOK)]
    assert newest(None, owner("ada", sealed)).of("ada") == [Address("slack", sealed)]
    assert opened_addresses([Address("slack", sealed)], AddressKeys(OLD)) == [Address("slack", sealed)]


def test_an_address_that_cannot_be_opened_gets_nothing_and_the_reason_is_said() -> None:
    sealed = AddressKeys(OLD).sealed("webhook", "https://hooks.example.com/ada")
    options = NotifierOptions(webhook_secret="whsec_x", default_webhook="https://default.example.com/")
    receivers = Receivers(lambda _: [Address("webhook", sealed)], options)
    found = receivers.of("ada")
    assert list(found) == ["webhook address", "https://default.example.com"]  # the default stands in
    assert "which at_rest.key does not have" in receivers.unsupported(found["webhook address"])
    assert receivers.unsupported(found["https://default.example.com"]) == ""


def test_addresses_in_plain_are_named_once_where_there_is_a_key(caplog: pytest.LogCaptureFixture) -> None:
    keys = AddressKeys(NEW)
    controls = newest(keys, owner("ada", HOOK), owner("bob", keys.sealed("slack", HOOK)))
    controls.refresh()
    controls.refresh()
    assert events(caplog.records) == [
        (
            "addresses stand in the log as they are, although at_rest.key is set",
            {"controls": "owner/ada", "number": 1},
        )
    ]
    assert HOOK not in logged(caplog)
    caplog.clear()
    newest(None, owner("ada", HOOK)).refresh()
    assert events(caplog.records) == []
