"""Jobs in the archive: told apart whatever their names, few bytes each, none for ever; and a job that is not there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.durations import DAY_MS
from schemas.tables import ARCHIVE, JOB_MINUTES
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.engine.snapshot import archive_index, compaction
from streams.engine.snapshot.archive_index import ArchiveIndex, ranges
from tests.engine.stepping import step
from tests.engine.test_shard import HOUR_MS, T0, batch, event, shard

NAMES = [f"job-{number}" for number in range(12)]


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    """What is done to the table, to which job, when."""
    kinds = st.sampled_from(["put", "put", "put", "forget", "move", "forget_before"])
    return draw(st.lists(st.tuples(kinds, st.sampled_from(NAMES), st.integers(0, 30)), max_size=60))


def moved(table: ArchiveIndex, parts: int) -> ArchiveIndex:
    """The same out of a snapshot, in so many slices."""
    again = ArchiveIndex()
    again.seed = table.seed
    for span in ranges(parts):
        again.load(table.entries_between(*span))
    return again


@pytest.mark.parametrize("few", [0, 3, 1000])
@pytest.mark.parametrize("halves", ["apart", "upper halves collide"])
@given(history=histories())
def test_it_knows_what_a_dictionary_knows(few: int, halves: str, history: list[tuple[str, str, int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_index, "_FEW", few)
        if halves != "apart":
            key = ArchiveIndex._key
            patch.setattr(ArchiveIndex, "_key", lambda self, job_id: (7, key(self, job_id)[1]))
        table, plain = ArchiveIndex(b"seed"), dict[str, tuple[int, int]]()
        for version, (kind, name, day) in enumerate(history):
            if kind == "put":
                table.add(name, version, day * DAY_MS + 5)
                plain[name] = version, day
            elif kind == "forget":
                table.forget([name])
                plain.pop(name, None)
            elif kind == "forget_before":
                table.forget_before(day * DAY_MS + 9)
                plain = {name: entry for name, entry in plain.items() if entry[1] >= day}
            else:
                table = moved(table, day + 1)
            known = {name: table.version_of(name) for name in NAMES}
            assert known == {name: plain[name][0] if name in plain else None for name in NAMES}
            one = ArchiveIndex(b"seed")
            one.load(table.entries_of([name]))
            assert [each for each in NAMES if one.version_of(each) is not None] == [name] * (name in plain)


def test_a_job_takes_few_bytes_and_none_for_ever() -> None:
    table = ArchiveIndex(b"seed")
    for number in range(20_000):
        table.add(f"job-{number}", number, number * DAY_MS // 100)
    table.forget_before(0)
    assert table.nbytes < 40 * 20_000
    assert {table.version_of(f"job-{number}") for number in (0, 1, 19_999)} == {0, 1, 19_999}
    table.forget_before(150 * DAY_MS)
    assert len(table) == 5_000
    assert table.version_of("job-14999") is None
    assert table.version_of("job-15000") == 15_000


def test_another_seed_gives_other_keys() -> None:
    one, other = ArchiveIndex(b"one"), ArchiveIndex(b"other")
    for table in (one, other):
        table.add("j", 1, 0)
    assert one.entries_of(["j"]) != other.entries_of(["j"])
    other.seed = b"one"
    assert other.version_of("j") is None


def test_versions_are_unsigned_as_in_the_archive() -> None:
    table = ArchiveIndex(b"seed")
    table.add("j", 2**64 - 1, 0)
    assert moved(table, 2).version_of("j") == 2**64 - 1


# -- in a shard ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("why", ["one key for two jobs", "its row is lost"])
def test_a_job_that_the_archive_lacks_is_a_new_one(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if why == "one key for two jobs":
        monkeypatch.setattr(ArchiveIndex, "_key", lambda _self, _job_id: (1, 2))
    one = shard()
    ended = [event("started", gpu_count=2), event("completed", HOUR_MS)]
    one.fold(batch(*ended, event("started", 30 * HOUR_MS, "k")))
    one.checkpoint(T0, 1, open_attempts=True)
    name = "other" if why == "one key for two jobs" else "j"
    news = batch(
        event("started", 31 * HOUR_MS, name, gpu_count=1), event("completed", 32 * HOUR_MS, name), first=3
    )
    assert one.missing(news) == {name: 1}
    (point,) = step(one, [news], PriceBook.empty(), lambda _: {}, T0 + 40 * HOUR_MS, [2])
    rows = [row for row in point.tables[JOB_MINUTES].to_pylist() if row["job_id"] == name]
    assert sum(row["quantity"] for row in rows if row["component"] == "gpu") == 1000 * HOUR_MS
    assert one.absent([name]) == {}


def test_all_of_them_come_back_out_of_a_chain_of_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "_IDS_AT_ONCE", 16)
    one = Shard(3, ShardSettings(snapshots_per_round=4), PriceBook.empty(), b"a seed")
    chain: list[tuple[int, bytes]] = []
    offset = 0
    for hour in range(60):
        events = [
            event(kind, hour * HOUR_MS, f"{hour}-{n}") for n in range(4) for kind in ("started", "completed")
        ]
        blobs: dict[str, bytes] = {}
        one.fold(batch(*events, first=offset))
        offset += len(events)
        point = one.checkpoint(T0, hour + 1, open_attempts=True)
        if ARCHIVE in point.tables:
            blobs |= dict(
                zip(*(point.tables[ARCHIVE][name].to_pylist() for name in ("job_id", "blob")), strict=True)
            )
        if hour % 7 == 6 and blobs:  # some come back, and leave again under a later version
            one.adopt(dict(list(blobs.items())[:2]))
        chain.append((hour + 1, point.snapshot))
    assert len(one.archived) > 60
    assert one.snapshots.compaction.root > 10
    again = Shard.restore(
        3,
        one.settings,
        PriceBook.empty(),
        [blob for version, blob in chain if version >= one.snapshots.compaction.root],
        b"another",
    )
    assert again.archived.seed == b"a seed"
    names = [f"{hour}-{n}" for hour in range(60) for n in range(4)]
    assert again.absent(names) == one.absent(names)
    assert sorted(again.jobs) == sorted(one.jobs)


def test_an_id_that_comes_back_after_years_is_a_new_job() -> None:
    one = shard()
    one.fold(batch(event("started"), event("completed", HOUR_MS), event("started", 30 * HOUR_MS, "k")))
    one.checkpoint(T0, 1, open_attempts=True)
    assert one.absent(["j"]) == {"j": 1}
    one.settings = ShardSettings(archived_for_ms=40 * HOUR_MS)
    one.fold(batch(event("heartbeat", 47 * HOUR_MS, "k"), first=3))
    one.checkpoint(T0, 2, open_attempts=True)
    assert one.absent(["j"]) == {"j": 1}, "by days"
    one.settings = ShardSettings(archived_for_ms=20 * HOUR_MS, job_horizon_ms=12 * HOUR_MS)
    one.fold(batch(event("heartbeat", 48 * HOUR_MS, "k"), first=4))
    one.checkpoint(T0, 3, open_attempts=True)
    assert one.absent(["j"]) == {}


def test_a_restore_does_not_bring_back_what_was_forgotten() -> None:
    """A slice of before the years were over still names the job."""
    one = shard()
    one.fold(batch(event("started"), event("completed", HOUR_MS), event("started", 30 * HOUR_MS, "k")))
    early = one.checkpoint(T0, 1, open_attempts=True).snapshot
    one.settings = ShardSettings(archived_for_ms=20 * HOUR_MS, job_horizon_ms=12 * HOUR_MS)
    one.fold(batch(event("heartbeat", 48 * HOUR_MS, "k"), first=3))
    late = one.checkpoint(T0, 2, open_attempts=True).snapshot
    assert one.absent(["j"]) == {}
    again = Shard.restore(3, one.settings, PriceBook.empty(), [early, late], b"")
    assert again.absent(["j"]) == {}
