"""Converts the connection settings for librdkafka's clients and for Faust."""

from __future__ import annotations

import ssl
from typing import Any

import faust
from faust.types.auth import CredentialsT
from yarl import URL

from streams.config.settings import KafkaSettings


def librdkafka_config(kafka: KafkaSettings) -> dict[str, Any]:
    """The settings that all our confluent-kafka clients share."""
    config: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "security.protocol": kafka.security_protocol,
        # We report an unreachable broker once; librdkafka would, on stderr, every second.
        "log_level": 0,
    }
    if kafka.sasl_mechanism is not None:
        config["sasl.mechanisms"] = kafka.sasl_mechanism
        config["sasl.username"] = kafka.sasl_username
        config["sasl.password"] = (
            "" if kafka.sasl_password is None else kafka.sasl_password.get_secret_value()
        )
    if kafka.ssl_ca_location is not None:
        config["ssl.ca.location"] = str(kafka.ssl_ca_location)
    return config


def faust_brokers(kafka: KafkaSettings) -> list[URL]:
    """The brokers in Faust's form."""
    return [URL(f"kafka://{server}") for server in kafka.bootstrap_servers.split(",")]


def faust_credentials(kafka: KafkaSettings) -> CredentialsT | None:
    """The credentials that Faust passes to aiokafka; None for plain text without a user."""
    context = None
    if kafka.security_protocol in ("SSL", "SASL_SSL"):
        cafile = None if kafka.ssl_ca_location is None else str(kafka.ssl_ca_location)
        context = ssl.create_default_context(cafile=cafile)
    if kafka.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL"):
        password = "" if kafka.sasl_password is None else kafka.sasl_password.get_secret_value()
        return faust.SASLCredentials(
            username=kafka.sasl_username,
            password=password,
            ssl_context=context,
            mechanism=kafka.sasl_mechanism or "PLAIN",
        )
    return None if context is None else faust.SSLCredentials(context)
