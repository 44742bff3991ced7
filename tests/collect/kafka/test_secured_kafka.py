"""The relay and what it publishes, on a real broker with TLS and SCRAM."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from tests.cli.command import MAIN, Done, trainfare
from tests.collect.kafka.world import MAPS, TOPIC
from tests.kafka.broker import KafkaBroker, _free_ports, why_not
from tests.tls import certificate

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

_USER: Final = "relay"
_PASSWORD: Final = "s3cret-of-the-relay"
_MECHANISM: Final = "SCRAM-SHA-512"
IMPATIENT: Final = "tests.cli.variants:impatient_relay"


class Secured(NamedTuple):
    """A broker with a listener for nobody but who knows its password."""

    plain: str
    secured: str
    ca: Path
    password_file: Path


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("secured")
    found = KafkaBroker(directory)
    key, cert = certificate()
    (port,) = _free_ports(1)
    properties = directory / "server.properties"
    lines = []
    for line in properties.read_text().splitlines():
        if line.startswith("listeners="):
            line += f",SASL_SSL://127.0.0.1:{port}"
        if line.startswith("advertised.listeners="):
            line += f",SASL_SSL://localhost:{port}"
        lines.append(line)
    jaas = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    lines += [
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,BEHIND:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL",
        f"sasl.enabled.mechanisms={_MECHANISM}",
        f"listener.name.sasl_ssl.{_MECHANISM.lower()}.sasl.jaas.config={jaas}",
        "ssl.keystore.type=PEM",
        "ssl.keystore.key=" + key.replace("\n", "\\n"),
        "ssl.keystore.certificate.chain=" + cert.replace("\n", "\\n"),
    ]
    properties.write_text("\n".join(lines) + "\n")
    found.start()
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    client = AdminClient({"bootstrap.servers": found.bootstrap_servers})
    of_user = UserScramCredentialUpsertion(_USER, info, _PASSWORD.encode())
    client.alter_user_scram_credentials([of_user])[_USER].result()
    (directory / "ca.pem").write_text(cert)
    (directory / "password").write_text(_PASSWORD + "\n")
    yield Secured(found.bootstrap_servers, f"localhost:{port}", directory / "ca.pem", directory / "password")
    found.kill()


def relayed(
    broker: Secured,
    directory: Path,
    *,
    password_file: Path | None = None,
    ca: Path | None = None,
    function: str = MAIN,
) -> Done:
    """What comes of one poll, with its source and its destination behind TLS."""
    own = f"t{uuid.uuid4().hex[:8]}."
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": broker.secured,
        "TRAINFARE_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "TRAINFARE_KAFKA_SASL_MECHANISM": _MECHANISM,
        "TRAINFARE_KAFKA_SASL_USERNAME": _USER,
        "TRAINFARE_KAFKA_SASL_PASSWORD": _PASSWORD,
        "TRAINFARE_KAFKA_SSL_CA_LOCATION": str(broker.ca),
        "TRAINFARE_KAFKA_TOPIC_PREFIX": own,
        "TRAINFARE_KAFKA_PARTITIONS": "2",
    }
    created = trainfare("topics", "create", env=env)
    assert created.code == 0, created.err
    client = AdminClient({"bootstrap.servers": broker.plain})
    client.create_topics([NewTopic(f"{own}{TOPIC}", 1, 1)])[f"{own}{TOPIC}"].result()
    producer = Producer({"bootstrap.servers": broker.plain})
    for line in (MAPS / "jobcomp.sample.jsonl").read_bytes().splitlines():
        producer.produce(f"{own}{TOPIC}", line)
    assert not producer.flush(30)
    text = (MAPS / "jobcomp.toml").read_text().replace(f'"{TOPIC}"', f'"{own}{TOPIC}"')
    connection = (
        f'bootstrap_servers = "{broker.secured}"\nsecurity_protocol = "SASL_SSL"\n'
        f'sasl_mechanism = "{_MECHANISM}"\nsasl_username = "{_USER}"\n'
        f'sasl_password_file = "{password_file or broker.password_file}"\n'
        f'ssl_ca_location = "{ca or broker.ca}"\n'
    )
    (directory / "map.toml").write_text(f"{text}\n[kafka.connection]\n{connection}")
    return trainfare(
        "collect", "kafka", "--config", "map.toml", "--once", env=env, cwd=directory, function=function
    )


def test_records_become_events_over_tls_with_a_password(broker: Secured, tmp_path: Path) -> None:
    done = relayed(broker, tmp_path)
    assert done.code == 0, done.err
    assert done.err.startswith("read 6: 5 metered, 1 free, 0 not understood\nfree: 1 no_record")
    assert done.out == f"15 events acknowledged by {broker.secured}\n"


def test_a_wrong_password_is_an_error_that_does_not_tell_it(broker: Secured, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("wr0ng-one")
    done = relayed(broker, tmp_path, password_file=tmp_path / "password", function=IMPATIENT)
    assert done.code == 1
    assert f"Kafka at {broker.secured}" in done.one_line()
    assert "wr0ng-one" not in done.one_line()


def test_a_broker_that_no_authority_vouches_for_is_refused(broker: Secured, tmp_path: Path) -> None:
    other = Path("/etc/ssl/certs/ca-certificates.crt")
    if not other.exists():
        pytest.skip("no authorities here that could vouch for another broker")
    done = relayed(broker, tmp_path, ca=other, function=IMPATIENT)
    assert done.code == 1
    assert f"Kafka at {broker.secured}" in done.one_line()
