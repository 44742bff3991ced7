"""A receipt that is made when somebody looks says whether one is still due."""

import pytest

from streams.explain.receipts import unsent_words

DUE_MS = 1_780_308_000_000


@pytest.mark.parametrize(
    ("newest_ms", "words"),
    [
        (
            DUE_MS - 60_000,
            "not sent yet: due at 2026-06-01 10:00:00 UTC, if its owner asked for receipts; made from the store now",
        ),
        (
            DUE_MS + 89_999,
            "not sent yet: due at 2026-06-01 10:00:00 UTC, if its owner asked for receipts; made from the store now",
        ),
        (DUE_MS + 90_000, "not sent: made from the store now"),
    ],
)
def test_a_receipt_that_is_due_is_not_sent_yet(newest_ms: int, words: str) -> None:
    assert unsent_words(DUE_MS, newest_ms) == words
