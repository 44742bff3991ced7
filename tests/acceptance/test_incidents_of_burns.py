"""Jobs of one sweep that burn, replayed whole: one message, as urgent as what they waste together."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.test_one_cause_one_message import Story


@pytest.mark.parametrize(("gpus", "severity"), [(20, "ticket"), (24, "page")], ids=["$90/h", "$120/h"])
def test_a_sweep_that_burns_is_a_page_where_its_jobs_pay_too_much_together(
    tmp_path: Path, gpus: int, severity: str
) -> None:
    """Each of three trials pays $30/h or $40/h above what is expected of it."""
    story = Story()
    for number in range(3):
        name = f"lr-{number}"
        story.start(0, name, f"n{number}")
        story.lives(name, range(180), f"n{number}", None)
        held = {"gpu_count": gpus, "nodes": {f"n{number}-{more}": gpus // 2 for more in range(2)}}
        story.put("jobs", 60, job_id=name, type="scaled", **held)
    ((rule, _, _),) = story.told(tmp_path)
    assert rule == "incident"
    by_rule = {each.rule: each.severity for each in story.alerts}
    assert by_rule == {"burn_drift": "ticket", "incident": severity}
