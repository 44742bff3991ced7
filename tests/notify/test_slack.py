"""Messages to Slack: what they say, and that no name says more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from schemas.escaping import visible
from streams.engine.alerts.alert import Alert
from streams.notify.channels.slack import SHOWN_AT_MOST, fitted, slack_body
from streams.notify.links import Links
from tests.notify.scripted_sender import NOW_MS, an_alert, resolved

LINKS = Links("https://fare.example.com", "https://docs.example.com")
LOCAL_TIME = re.compile(
    r"(Since|Until|Ended)\n<!date\^\d+\^\{date_short_pretty\} \{time\}\|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC>"
)
FORMATS = {"mrkdwn", "markdown", "rich_text"}


def body(*alerts: Alert, links: Links = LINKS) -> dict[str, Any]:
    message: dict[str, Any] = orjson.loads(slack_body(alerts, links))
    check(message)
    return message


def texts(part: object) -> Iterator[dict[str, Any]]:
    """Every text object of a message."""
    if isinstance(part, dict):
        if part.get("type") in {"plain_text", *FORMATS}:
            yield part
        for each in part.values():
            yield from texts(each)
    elif isinstance(part, list):
        for each in part:
            yield from texts(each)


def check(message: dict[str, Any]) -> None:
    """Slack's documented limits; it refuses the whole message over any of them."""
    assert 1 <= len(message["text"]) <= 4_000
    assert 1 <= len(message["blocks"]) <= 50
    for block in message["blocks"]:
        if block["type"] == "header":
            assert len(block["text"]["text"]) <= 150
        if block["type"] == "section":
            assert len(block["text"]["text"]) <= 3_000
            assert 1 <= len(block.get("fields", [1])) <= 10
            assert all(len(field["text"]) <= 2_000 for field in block.get("fields", []))
        if block["type"] == "actions":
            assert 1 <= len(block["elements"]) <= 25
            assert len({each["action_id"] for each in block["elements"]}) == len(block["elements"])
            assert all(len(each["text"]["text"]) <= 75 for each in block["elements"])
            assert all(len(each["url"]) <= 3_000 for each in block["elements"])
        if block["type"] == "context":
            assert 1 <= len(block["elements"]) <= 10
    assert all(each["text"] for each in texts(message)), "an empty text is refused"
    for each in texts(message):
        if each["type"] == "mrkdwn":  # an instant, and nothing else
            assert LOCAL_TIME.fullmatch(each["text"])
            assert each["verbatim"]
        else:
            assert each["type"] == "plain_text"
            assert not each["emoji"]


def test_one_alert_has_a_title_a_sentence_figures_and_buttons() -> None:
    header, section, actions = body(an_alert())["blocks"]
    assert header["text"]["text"] == "\U0001f6a8 job-1: Runaway burn (page)"
    assert section["text"]["text"] == "job-1 burns $786.56/h"
    assert [field["text"] for field in section["fields"]] == [
        "Burns\n$786.56/h",
        "Expected\n$98.32/h (8.2x)",
        "Owner\nada",
        "Team\nvision",
        "Project\np",
        f"Since\n<!date^{NOW_MS // 1000}^{{date_short_pretty}} {{time}}|2027-01-15 08:00:00 UTC>",
    ]
    assert [(each["text"]["text"], each["url"]) for each in actions["elements"]] == [
        ("Open", f"https://fare.example.com/?at={NOW_MS}#/job/job-1"),
        ("Runbook", "https://docs.example.com/runbook.md#spend-spike"),
        ("Acknowledge", f"https://fare.example.com/?ack={an_alert().alert_id}#/job/job-1"),
        ("Silence", f"https://fare.example.com/?silence={an_alert().alert_id}#/job/job-1"),
        ("This is planned", f"https://fare.example.com/?planned={an_alert().alert_id}#/job/job-1"),
    ]


def test_a_ticket_has_another_sign_that_is_shown() -> None:
    head = body(an_alert(severity="ticket"))["blocks"][0]["text"]["text"]
    assert head == "\u26a0 job-1: Runaway burn (ticket)"


def test_without_addresses_there_are_no_buttons() -> None:
    assert [block["type"] for block in body(an_alert(), links=Links())["blocks"]] == ["header", "section"]


def test_a_resolved_one_cannot_be_silenced_any_more() -> None:
    _, section, actions = body(resolved())["blocks"]
    assert section["fields"][-1]["text"].endswith("^{date_short_pretty} {time}|2027-01-15 08:00:10 UTC>")
    assert [each["action_id"] for each in actions["elements"]] == ["subject", "runbook"]


def test_the_meter_has_neither_an_owner_nor_a_rate() -> None:
    meter = an_alert(
        "canary",
        subject_kind="meter",
        owner="",
        team="",
        project="",
        usd_nano_per_hour=0,
        expected_nano_per_hour=0,
    )
    _, section, _ = body(meter)["blocks"]
    assert [field["text"].splitlines()[0] for field in section["fields"]] == ["Since"]


def test_a_group_says_how_many_fire_and_names_the_rest() -> None:
    alerts = [an_alert(f"job-{number}") for number in range(30)]
    message = body(*alerts, resolved("over"))
    assert message["blocks"][0]["text"]["text"] == "\U0001f6a8 30 firing, 1 resolved: owner ada, project p"
    assert sum(block["type"] == "section" for block in message["blocks"]) == SHOWN_AT_MOST + 1
    last = message["blocks"][-1]["text"]["text"]
    assert last.startswith(f"and {31 - SHOWN_AT_MOST} more: ")
    assert last.endswith("job-29, over")


def test_names_cannot_forge_lines_of_a_message() -> None:
    name = "a\n:white_check_mark: resolved\u202e\x1b[2J\ud800"
    message = body(an_alert(name, summary=f"{name} burns", owner="\u2066ada", team="t\r\nx"))
    for each in texts(message):
        assert visible(each["text"], lines=True) == each["text"]
        assert each["text"].count("\n") <= 1, "between a label and its value"
    assert message["text"].count("\n") == 1


@pytest.mark.parametrize(
    "name",
    [
        "<!channel>",
        "<!here|x>",
        "<@U012AB3CD>",
        "<https://evil.example.com|Open>",
        "*bold* _x_ ~y~ `z`",
        "&lt;!channel&gt;",
        ":rotating_light:",
    ],
)
def test_no_name_mentions_formats_or_links(name: str) -> None:
    message = body(an_alert(name, owner=name, team=name, project=name, summary=f"{name} burns", rule=name))
    plain = [each for each in texts(message) if each["type"] == "plain_text"]
    for each in (*plain, {"text": message["text"]}):
        assert "<" not in each["text"]
        assert ">" not in each["text"]
        assert "&" not in each["text"].replace("&amp;", "").replace("&lt;", "").replace("&gt;", "")


@pytest.mark.parametrize("letter", ["x", "<", "\u00fc", "\U0001f6a8", "\u202e", "\n", "\ud800"])
def test_the_limits_of_blocks_are_kept(letter: str) -> None:
    long = letter * 256
    hostile = an_alert(long, owner=long, team=long, project=long, summary=letter * 50_000)
    body(hostile)
    body(*[hostile] * 200)
    body(*[an_alert(long, "resolved", owner=long, resolved_ms=NOW_MS)] * 200)


@pytest.mark.parametrize("at_most", [1, 2, 5, 6, 7, 20])
def test_a_text_is_cut_between_its_escapes(at_most: int) -> None:
    cut = fitted("&<>abc&<>", at_most)
    assert len(cut) <= at_most
    assert (
        cut.removesuffix("\u2026").replace("&amp;", "").replace("&lt;", "").replace("&gt;", "").strip("abc")
        == ""
    )
    assert fitted("&<>", 13) == "&amp;&lt;&gt;"
