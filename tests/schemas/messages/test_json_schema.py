"""The published schemas of messages are those of the structs, travel with the package, and fit what is really sent."""

from __future__ import annotations

import importlib.resources
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError

from schemas.messages.json_schema import MESSAGES, rendered
from streams.notify.channels.webhook import webhook_body
from tests.notify.scripted_sender import an_alert, resolved

FILES = importlib.resources.files("schemas.messages")


def published(message_type: str) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(FILES.joinpath(f"{message_type}.json").read_text())
    return schema


def check(body: bytes) -> dict[str, Any]:
    """The message, once its schema has taken it."""
    message: dict[str, Any] = json.loads(body)
    Draft202012Validator(published(message["type"])).validate(message)
    return message


@pytest.mark.parametrize("message_type", MESSAGES)
def test_the_file_is_what_the_struct_says(message_type: str) -> None:
    text = FILES.joinpath(f"{message_type}.json").read_text()
    assert text == rendered(message_type), "run `make docs`"
    Draft202012Validator.check_schema(json.loads(text))


def test_every_file_has_its_message() -> None:
    files = {Path(str(each)).name for each in FILES.iterdir() if each.name.endswith(".json")}
    assert files == {f"{message_type}.json" for message_type in MESSAGES}


@pytest.mark.parametrize(
    "alert",
    [
        an_alert(),
        resolved(),
        an_alert("job-\ud800\n", owner="", team="", project="", ratio=0.0, window_ms=0, cost_nano=-1),
        an_alert("canary", subject_kind="meter", usd_nano_per_hour=0, expected_nano_per_hour=0),
    ],
)
def test_what_is_sent_fits_its_schema(alert: Any) -> None:
    assert check(webhook_body(alert))["data"]["alert_id"] == alert.alert_id


@pytest.mark.parametrize(
    "spoilt",
    [
        {"usd_per_hour": 1.5},
        {"usd_per_hour": "1.0000000001"},
        {"severity": "warning"},
        {"subject": {"kind": "job"}},
        {"alert_id": "1"},
    ],
)
def test_another_message_does_not_fit(spoilt: dict[str, Any]) -> None:
    message = json.loads(webhook_body(an_alert()))
    message["data"].update(spoilt)
    with pytest.raises(ValidationError):
        check(json.dumps(message).encode())


def test_a_missing_field_and_the_schema_of_another_type_do_not_fit() -> None:
    message = json.loads(webhook_body(an_alert()))
    with pytest.raises(ValidationError):
        Draft202012Validator(published("alert.resolved")).validate(message)
    del message["data"]["cost_usd"]
    with pytest.raises(ValidationError):
        check(json.dumps(message).encode())


def test_a_field_of_a_later_version_fits() -> None:
    message = json.loads(webhook_body(an_alert()))
    message["data"]["cause"] = {"component": "gpu"}
    check(json.dumps(message).encode())
