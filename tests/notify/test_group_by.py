"""Messages to people are grouped by the labels of `alerts.group_by`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schemas.tables import JOBS
from sinks.errors import QueryFailed
from streams.config.live import _GROUP_LABELS, _JOB_LABEL, AlertSettings
from streams.engine.alerts.alert import Address
from streams.notify.groups import ALL_LABELS, JOB_LABEL, LABELS
from tests.notify.scripted_sender import SLACK, Office, Watched, an_alert, resolved, run
from tests.notify.test_groups import INTERVAL_MS, WAIT_MS, office, texts, ticket
from tests.sinks.rows import rows


@pytest.mark.parametrize(
    ("group_by", "titles"),
    [
        (("owner", "project"), ["2 firing: owner ada, project p", "b: Runaway burn (page)"]),
        (("team",), ["2 firing: owner ada, project p", "b: Runaway burn (page)"]),
        (("alertname",), ["2 firing: Runaway burn", "t: Slow drift above plan (ticket)"]),
        (("severity", "subject_kind"), ["2 firing: Runaway burn", "t: Slow drift above plan (ticket)"]),
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


def test_two_addresses_of_one_host_have_messages_of_their_own() -> None:
    """Of both the same may be shown, and each person gets what is theirs."""

    async def go() -> None:
        there = office(options={"group_by": ("alertname",)})
        of_owner = {"ada": SLACK, "bob": SLACK + "-of-bob"}
        there.notifier._receivers._addresses = lambda owner: [Address("slack", of_owner[owner])]
        await there.offer(an_alert("a"), an_alert("b", owner="bob"))
        await there.work(WAIT_MS)
        told = {sent.url: sent.body["blocks"][0]["text"]["text"][2:].strip() for sent in there.sender.sent}
        assert told == {
            SLACK: "a: Runaway burn (page)",
            SLACK + "-of-bob": "b: Runaway burn (page)",
        }

    run(go())


def labelled(there: Office, job_id: str, version: int = 1, **labels: str) -> None:
    """A stored job with labels."""
    row = {"job_id": job_id, "labels": [*labels.items()], "version": version}
    there.store.insert(JOBS, rows(JOBS, row), f"{job_id}:{version}")


def test_a_label_of_the_job_makes_a_group_of_its_own_per_owner() -> None:
    async def go() -> None:
        there = office(options={"group_by": ("owner", "label.stage")})
        there.notifier._receivers._addresses = lambda _: [Address("slack", SLACK)]
        for job_id, stage in (("a", "eval"), ("b", "eval"), ("c", "train"), ("d", "eval")):
            labelled(there, job_id, stage=stage)
        labelled(there, "plain", other="eval")
        budget = an_alert("m", subject_kind="team", subject_name="m")
        other = an_alert("d", owner="bob")
        await there.offer(an_alert("a"), an_alert("b"), an_alert("c"), other, an_alert("plain"), budget)
        await there.work(WAIT_MS)
        # a and b; c; d of another owner; what has no such label, the one about no job among them.
        assert sorted(title[:8] for title in texts(there)) == ["2 firing", "2 firing", "c: Runaw", "d: Runaw"]
        sent = len(texts(there))
        labelled(there, "c", version=2, stage="eval")
        await there.offer(resolved("c"))
        await there.work(INTERVAL_MS)
        assert len(texts(there)) == sent + 1
        assert texts(there)[-1].startswith("c: "), "the end goes where the beginning went"

    run(go())


def test_a_store_that_does_not_answer_groups_without_labels() -> None:
    async def go() -> None:
        def look(table: str, columns: Sequence[str] | None) -> None:
            if table == JOBS:
                raise QueryFailed("not now")

        there = office(options={"group_by": ("label.stage",)}, store=Watched(look))
        there.notifier._receivers._addresses = lambda _: [Address("slack", SLACK)]
        labelled(there, "a", stage="eval")
        await there.offer(an_alert("a"), an_alert("b"))
        await there.work(WAIT_MS)
        assert [title[:8] for title in texts(there)] == ["2 firing"]
        assert there.notifier.faults.counts["read_alerts"]

    run(go())


def test_labels_of_the_setting_are_those_that_there_are() -> None:
    assert set(_GROUP_LABELS) == {*LABELS, ALL_LABELS}
    assert _JOB_LABEL == JOB_LABEL
    assert AlertSettings(group_by="owner, label.stage").group_by == "owner,label.stage"
    assert AlertSettings(group_by=" team , severity").group_by == "team,severity"
    for wrong in ("tem", "team,team", "label.", "label.a,label.a"):
        with pytest.raises(ValueError, match="label"):
            AlertSettings(group_by=wrong)
