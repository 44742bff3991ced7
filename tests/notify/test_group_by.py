"""Messages to people are grouped by the labels of `alerts.group_by`."""

from __future__ import annotations

import pytest

from streams.config.live import _GROUP_LABELS, AlertSettings
from streams.engine.alerts.alert import Address
from streams.notify.groups import ALL_LABELS, LABELS
from tests.notify.scripted_sender import SLACK, an_alert, resolved, run
from tests.notify.test_groups import INTERVAL_MS, WAIT_MS, office, texts, ticket


@pytest.mark.parametrize(
    ("group_by", "titles"),
    [
        (("owner", "project"), ["2 firing: owner ada, project p", "b: Runaway burn (page)"]),
        (("team",), ["2 firing: owner ada, project p", "b: Runaway burn (page)"]),
        (("alertname",), ["2 firing: rule burn_fast", "t: Slow drift above plan (ticket)"]),
        (("severity", "subject_kind"), ["2 firing: rule burn_fast", "t: Slow drift above plan (ticket)"]),
        (
            ("...",),
            ["a: Runaway burn (page)", "b: Runaway burn (page)", "t: Slow drift above plan (ticket)"],
        ),
        ((), ["3 firing: several owners"]),
    ],
    ids=str,
)
def test_alerts_with_the_same_labels_share_a_message(group_by: tuple[str, ...], titles: list[str]) -> None:
    async def go() -> None:
        there = office(options={"group_by": group_by})
        there.notifier._receivers._addresses = lambda _: [Address("slack", SLACK)]
        await there.offer(an_alert("a"), an_alert("b", owner="bob", project="q", team="nlp"), ticket("t"))
        await there.work(WAIT_MS)
        assert sorted(title.replace("burn_fast, ", "") for title in texts(there)) == sorted(titles)
        await there.offer(resolved("b", owner="eve", team="other"))
        await there.work(INTERVAL_MS)
        assert "resolved" in texts(there)[-1], "whatever the labels are by then"

    run(go())


def test_labels_of_the_setting_are_those_that_there_are() -> None:
    assert set(_GROUP_LABELS) == {*LABELS, ALL_LABELS}
    assert AlertSettings(group_by=" team , severity").group_by == "team,severity"
    for wrong in ("tem", "team,team"):
        with pytest.raises(ValueError, match="label"):
            AlertSettings(group_by=wrong)
