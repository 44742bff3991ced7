"""A receipt for who is bound to a team: without what was found from jobs of other teams."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from schemas.messages.receipt import JobEnded, JobEndedData
from streams.web.receipts import of_own_team
from streams.worker.receipts.receipt import Cheaper, Figures, UsualCost
from tests.notify.notices import FIGURES, a_receipt

OF_ALL: Final = UsualCost({"gpu_type": "H100", "purchase": "on_demand"}, 6, 367_919_642_857)
SPOT: Final = Cheaper("spot", 300 * 10**9)
ON_DEMAND: Final = Cheaper("on_demand", 300 * 10**9)


def told(figures: Figures) -> tuple[JobEndedData, JobEndedData]:
    """What was sent, and what is left of it."""
    row: dict[str, Any] = {"message": a_receipt(figures).message.decode(), "owner": "ada"}
    sent, own = (
        msgspec.json.decode(str(each["message"]), type=JobEnded).data for each in (row, of_own_team(row))
    )
    return sent, own


def test_what_is_of_the_own_team_stays() -> None:
    sent, own = told(FIGURES._replace(cheaper=ON_DEMAND))
    assert own == sent
    assert "median of similar jobs" in own.summary


@pytest.mark.parametrize(
    ("figures", "left_out"),
    [
        (Figures(cost_nano=412_070_000_000, usual=OF_ALL), " 12 % over the median of similar jobs."),
        (FIGURES._replace(usual=OF_ALL), "; 12 % over the median of similar jobs"),
        (FIGURES._replace(usual=OF_ALL, cheaper=SPOT), "; 12 % over the median of similar jobs; spot would have saved $112.07"),
        (Figures(cost_nano=412_070_000_000, cheaper=SPOT), " spot would have saved $112.07."),
        (Figures(cost_nano=412_070_000_000, usual=OF_ALL, cheaper=ON_DEMAND), " 12 % over the median of similar jobs;"),
    ],
)  # fmt: skip
def test_what_may_be_of_others_is_left_out(figures: Figures, left_out: str) -> None:
    sent, own = told(figures)
    assert left_out in sent.summary
    assert own.summary == sent.summary.replace(left_out, "")
    assert own.kind is None
    assert (own.cheaper is None) == (figures.cheaper in (None, SPOT))
    assert own.cost_usd == sent.cost_usd
