"""Secrets by owner: whose signs what, how they are changed, and which files are not believed."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from streams.clock import ManualClock
from streams.engine.alerts.alert import Address
from streams.notify.webhooks.owner_secrets import OwnerSecretError, OwnerSecrets, Signers, file_name
from tests.logged import logged
from tests.notify.scripted_sender import HOOK, SECRET, Office, an_alert, run

ADAS = "whsec_" + "A" * 32
NEXT = "whsec_" + "B" * 32


def keep(folder: Path, owner: str, text: str, mode: int = 0o600) -> Path:
    name = file_name(owner)
    assert name is not None
    file = folder / name
    file.write_text(text)
    file.chmod(mode)
    return file


def test_an_owners_own_secret_signs_and_others_get_the_common_one(tmp_path: Path) -> None:
    keep(tmp_path, "ada", f"{ADAS}\n")

    async def go() -> None:
        signers = Signers(SECRET, tmp_path, ManualClock())
        for owner, secret in (("ada", ADAS), ("bob", SECRET), ("", SECRET)):
            signer = await signers.of(owner)
            assert signer is not None
            headers = signer.headers("msg_1", b"{}", time.time_ns() // 1_000_000)
            assert Webhook(secret).verify(b"{}", headers) == {}
            other = SECRET if secret == ADAS else ADAS
            with pytest.raises(WebhookVerificationError):
                Webhook(other).verify(b"{}", headers)

    asyncio.run(go())


def test_two_secrets_are_two_signatures_and_either_verifies(tmp_path: Path) -> None:
    keep(tmp_path, "ada", f"{ADAS}\n{NEXT}\n")

    async def go() -> None:
        signer = await Signers(None, tmp_path, ManualClock()).of("ada")
        assert signer is not None
        headers = signer.headers("msg_1", b"{}", time.time_ns() // 1_000_000)
        assert len(headers["webhook-signature"].split(" ")) == 2
        for secret in (ADAS, NEXT):
            assert Webhook(secret).verify(b"{}", headers) == {}

    asyncio.run(go())


def test_a_changed_file_counts_within_a_minute(tmp_path: Path) -> None:
    async def go() -> None:
        clock = ManualClock()
        signers = Signers(None, tmp_path, clock)
        assert await signers.of("ada") is None
        keep(tmp_path, "ada", ADAS)
        clock.advance(59_999)
        assert await signers.of("ada") is None
        clock.advance(1)
        assert await signers.of("ada") is not None

    asyncio.run(go())


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o620, 0o644, 0o666])
def test_a_file_that_others_may_read_or_change_is_refused(mode: int, tmp_path: Path) -> None:
    keep(tmp_path, "ada", ADAS, mode)
    with pytest.raises(OwnerSecretError, match="may be read or changed by others"):
        OwnerSecrets(tmp_path).of("ada")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440, 0o640])
def test_a_file_of_this_user_and_group_is_read(mode: int, tmp_path: Path) -> None:
    keep(tmp_path, "ada", ADAS, mode)
    assert OwnerSecrets(tmp_path).of("ada") == (ADAS,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    os.chown(keep(tmp_path, "ada", ADAS), 65_534, -1)
    with pytest.raises(OwnerSecretError, match="belongs to user 65534"):
        OwnerSecrets(tmp_path).of("ada")


def test_a_directory_that_others_may_write_is_refused(tmp_path: Path) -> None:
    keep(tmp_path, "ada", ADAS)
    tmp_path.chmod(0o777)
    with pytest.raises(OwnerSecretError, match="may be written by others"):
        OwnerSecrets(tmp_path).of("ada")


@pytest.mark.parametrize(
    "text", ["", "hunter2", f"{ADAS} {NEXT} {SECRET}", "whsec_short", "whsec_" + "A" * 5_000, "\x00"]
)
def test_a_file_with_something_else_is_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    keep(tmp_path, "ada", text)
    with pytest.raises(OwnerSecretError) as refused:
        OwnerSecrets(tmp_path).of("ada")
    assert "hunter2" not in str(refused.value)
    assert ADAS not in str(refused.value)


def test_what_is_no_file_is_refused_and_waited_for_by_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ada", 0o600)
    (tmp_path / "bob").mkdir(0o700)
    for owner in ("ada", "bob"):
        with pytest.raises(OwnerSecretError, match="is no file"):
            OwnerSecrets(tmp_path).of(owner)


def test_a_link_is_followed_and_its_target_is_judged(tmp_path: Path) -> None:
    keep(tmp_path, "target", ADAS)
    (tmp_path / "ada").symlink_to("target")
    assert OwnerSecrets(tmp_path).of("ada") == (ADAS,)
    (tmp_path / "target").chmod(0o644)
    with pytest.raises(OwnerSecretError):
        OwnerSecrets(tmp_path).of("ada")


@pytest.mark.parametrize(
    "owner", ["../ada", "..", ".", "/etc/passwd", "a/b", ".hidden", "a\x00b", "ada\nx", "\ud800"]
)
def test_no_owner_names_another_file(owner: str, tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir()
    keep(tmp_path, "ada", ADAS)
    name = file_name(owner)
    assert name is not None
    assert set(name).isdisjoint("/\x00\n")
    assert not name.startswith(".")
    assert OwnerSecrets(folder).of(owner) == ()
    keep(folder, owner, NEXT)
    assert OwnerSecrets(folder).of(owner) == (NEXT,)


def test_an_owner_too_long_for_a_file_has_none(tmp_path: Path) -> None:
    assert file_name("") is None
    assert file_name("\u00fc" * 128) is None
    assert OwnerSecrets(tmp_path).of("\u00fc" * 128) == ()


def test_a_file_that_cannot_be_used_holds_the_message_back_and_another_owners_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = keep(tmp_path, "ada", ADAS, 0o644)

    async def go() -> None:
        office = Office(options={"owner_secrets_dir": tmp_path})
        await office.offer(an_alert())
        assert office.sender.sent == [], "not signed by the common secret either"
        ((outcome, detail),) = office.rows("outcome", "detail")
        assert outcome == "retrying"
        assert "chmod 600" in detail
        file.chmod(0o600)
        await office.work(1_000)
        body = office.sender.sent[0]
        assert body.headers["webhook-signature"].startswith("v1,")
        assert office.rows("outcome")[1:] == [("delivered",)]

    run(go())
    assert ADAS not in logged(caplog)


def test_without_any_secret_of_an_owner_the_message_says_so(tmp_path: Path) -> None:
    office = Office(options={"webhook_secret": None, "owner_secrets_dir": tmp_path})
    run(office.offer(an_alert()))
    ((outcome, detail),) = office.rows("outcome", "detail")
    assert outcome == "failed"
    assert "alerts.owner_secrets_dir" in detail


def test_the_default_webhook_is_signed_by_the_common_secret(tmp_path: Path) -> None:
    keep(tmp_path, "ada", ADAS)
    office = Office(addresses=[], options={"owner_secrets_dir": tmp_path, "default_webhook": HOOK})
    own = Office(addresses=[Address("webhook", HOOK)], options={"owner_secrets_dir": tmp_path})
    run(office.offer(an_alert()))
    run(own.offer(an_alert()))
    common, owners = (each.sender.sent[0].headers["webhook-signature"] for each in (office, own))
    assert common != owners
    plain = Office(addresses=[], options={"default_webhook": HOOK})
    run(plain.offer(an_alert()))
    assert plain.sender.sent[0].headers["webhook-signature"] == common
