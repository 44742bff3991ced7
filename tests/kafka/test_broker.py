"""Without a broker the tests that need one are skipped with the reason, or fail where that is demanded."""

from __future__ import annotations

import pytest

from tests.kafka import broker


def test_a_machine_without_java_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert broker.why_not() == "no `java` on the PATH for a real Kafka broker"


@pytest.mark.parametrize(
    ("required", "outcome"), [("0", pytest.skip.Exception), ("1", pytest.fail.Exception)]
)
def test_no_broker_is_a_skip_or_where_demanded_a_failure(
    monkeypatch: pytest.MonkeyPatch, required: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setattr(broker, "why_not", lambda: "no broker today")
    monkeypatch.setenv("TRAINFARE_REQUIRE_KAFKA", required)
    with pytest.raises(outcome, match="no broker today"):
        broker.shared_broker.__wrapped__()
