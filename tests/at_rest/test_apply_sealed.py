"""A folder applied to a real broker with a key: sealed, not published twice, anew by another key, and never in plain."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from streams.address_keys import AddressKeys
from streams.config.settings import KafkaSettings
from streams.transport.controls_log import controls_by_key
from tests.cli.command import trainfare
from tests.kafka.broker import shared_broker

pytestmark = pytest.mark.kafka

OLD, NEW = "a" * 32, "b" * 32
HOOK = "https://hooks.slack.com/services/T0/B0/ada"


def test_a_folder_is_applied_sealed_once_and_anew_by_another_key(tmp_path: Path) -> None:
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "1",
    }
    kafka = KafkaSettings(
        bootstrap_servers=env["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"],
        topic_prefix=env["TRAINFARE_KAFKA_TOPIC_PREFIX"],
    )
    (tmp_path / "owners.toml").write_text(f'[[owner]]\nname = "ada"\nslack = "{HOOK}"\n')

    def apply(*keys: str) -> str:
        more = {"TRAINFARE_AT_REST_KEY": " ".join(keys)} if keys else {}
        done = trainfare("apply", tmp_path, env={**env, **more})
        assert HOOK not in done.out + done.err
        assert done.code == (0 if done.out else 2), done
        return (done.out or done.err).splitlines()[-1]

    def in_force() -> str:
        return str(controls_by_key(kafka)[b"owner/ada"].value["slack"])

    assert trainfare("topics", "create", env=env).code == 0
    assert apply().startswith("1 record acknowledged")
    assert in_force() == HOOK
    assert apply(OLD).startswith("1 record acknowledged")
    assert in_force() == AddressKeys(OLD).sealed("slack", HOOK)
    assert apply(OLD) == "nothing to do"
    assert "addresses in force are sealed, and this would write plain ones" in apply()
    assert in_force() == AddressKeys(OLD).sealed("slack", HOOK)
    assert apply(NEW, OLD).startswith("1 record acknowledged")
    assert in_force() == AddressKeys(NEW).sealed("slack", HOOK)
    assert apply(NEW) == "nothing to do"
