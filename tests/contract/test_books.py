import pytest

from schemas.tables import (
    ALERTS,
    ARCHIVE,
    BOOKS,
    BURN_RATES,
    DEAD_LETTER_COUNTS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_MINUTES,
    PRICES,
    SNAPSHOTS,
)
from sinks.archive import Archive
from sinks.errors import SinkError, StoreMismatch
from sinks.port import Store
from sinks.rows import Condition
from sinks.snapshots import Chain, Snapshot, Snapshots
from tests.memory_store import MemoryStore
from tests.sinks.rows import rows
from tests.sinks.stores import kept

SMALL_CHUNKS = 4


@pytest.fixture
def snapshots(store: Store) -> Snapshots:
    return Snapshots(store, chunk_bytes=SMALL_CHUNKS)


def lose(store: Store, version: int, chunk: int) -> None:
    where = [Condition("shard", "=", 1), Condition("version", "=", version), Condition("chunk", "=", chunk)]
    store.delete(SNAPSHOTS, where)


def spoil(store: Store, version: int, chunk: int) -> None:
    """The chunk is there, with another byte in it."""
    where = [Condition("shard", "=", 1), Condition("version", "=", version), Condition("chunk", "=", chunk)]
    (row,) = store.select(SNAPSHOTS, where).to_pylist()
    store.delete(SNAPSHOTS, where)
    store.insert(
        SNAPSHOTS, rows(SNAPSHOTS, row | {"blob": b"?" + row["blob"][1:]}), f"spoilt {version} {chunk}"
    )


class TestSnapshots:
    def test_nothing_saved_is_an_empty_chain(self, snapshots: Snapshots) -> None:
        assert snapshots.load(1) == Chain(0, [])

    @pytest.mark.parametrize("size_bytes", [0, 1, 4, 5, 8, 9, 100])
    def test_a_blob_of_any_size_comes_back(self, snapshots: Snapshots, size_bytes: int) -> None:
        blob = bytes(i * 7 % 256 for i in range(size_bytes))
        snapshots.save(1, 5, 0, blob)
        assert snapshots.load(1) == Chain(5, [blob])

    def test_a_base_and_its_increments_come_oldest_first(self, snapshots: Snapshots) -> None:
        for version, parent in [(5, 0), (6, 5), (9, 6)]:
            snapshots.save(1, version, parent, b"v%d" % version)
        assert snapshots.load(1) == Chain(9, [b"v5", b"v6", b"v9"])

    def test_increments_of_an_older_base_or_another_owner_are_left_out(self, snapshots: Snapshots) -> None:
        for version, parent in [(5, 0), (6, 5), (7, 5), (8, 0), (9, 8)]:
            snapshots.save(1, version, parent, b"v%d" % version)
        assert snapshots.load(1) == Chain(9, [b"v8", b"v9"])

    def test_shards_are_apart(self, snapshots: Snapshots) -> None:
        snapshots.save(1, 5, 0, b"one")
        snapshots.save(2, 6, 0, b"two")
        assert snapshots.load(1) == Chain(5, [b"one"])

    def test_versions_may_use_all_64_bits(self, snapshots: Snapshots) -> None:
        snapshots.save(1, 2**64 - 2, 0, b"base")
        snapshots.save(1, 2**64 - 1, 2**64 - 2, b"more")
        assert snapshots.load(1) == Chain(2**64 - 1, [b"base", b"more"])

    def test_a_retry_of_a_save_changes_nothing(self, snapshots: Snapshots) -> None:
        for _ in range(2):
            snapshots.save(1, 5, 0, b"0123456789")
        assert snapshots.load(1) == Chain(5, [b"0123456789"])

    @pytest.mark.parametrize("sizes_bytes", [(1, 1, 1), (4, 9, 0, 3), (3, 3, 1), (0, 0)])
    def test_snapshots_of_many_shards_come_back_each_by_itself(
        self, snapshots: Snapshots, sizes_bytes: tuple[int, ...]
    ) -> None:
        blobs = [bytes([65 + shard]) * size_bytes for shard, size_bytes in enumerate(sizes_bytes)]
        for _ in range(2):  # a retry changes nothing
            snapshots.save_all([Snapshot(shard, 5 + shard, 0, blob) for shard, blob in enumerate(blobs)])
        for shard, blob in enumerate(blobs):
            assert snapshots.load(shard) == Chain(5 + shard, [blob])

    def test_small_snapshots_share_an_insert_and_large_ones_do_not(self) -> None:
        store = MemoryStore()
        Snapshots(store, SMALL_CHUNKS).save_all([Snapshot(n, 5, 0, b"ab") for n in range(4)])
        assert store.inserts == 2
        Snapshots(store, SMALL_CHUNKS).save_all([Snapshot(1, 6, 5, b"123456789"), Snapshot(2, 6, 5, b"abc")])
        assert store.inserts == 2 + 3

    def test_an_insert_that_fails_leaves_no_shard_with_half_a_version(self) -> None:
        store = MemoryStore()
        snapshots = Snapshots(store, SMALL_CHUNKS)
        snapshots.save_all([Snapshot(1, 5, 0, b"one"), Snapshot(2, 5, 0, b"two")])
        store.fail(when="after")
        newer = [Snapshot(1, 6, 5, b"123456789"), Snapshot(2, 6, 5, b"abc")]
        with pytest.raises(SinkError):
            snapshots.save_all(newer)
        assert snapshots.load(1) == Chain(5, [b"one"])  # its first chunk alone arrived
        assert snapshots.load(2) == Chain(5, [b"two"])
        snapshots.save_all(newer)
        assert snapshots.load(1) == Chain(6, [b"one", b"123456789"])
        assert snapshots.load(2) == Chain(6, [b"two", b"abc"])

    @pytest.mark.parametrize("damage", [lose, spoil])
    def test_a_damaged_increment_falls_back_to_what_is_before_it(
        self, store: Store, snapshots: Snapshots, damage: object
    ) -> None:
        snapshots.save(1, 5, 0, b"base")
        snapshots.save(1, 6, 5, b"0123456789")
        snapshots.save(1, 7, 6, b"more")
        assert callable(damage)
        damage(store, 6, 2)
        assert snapshots.load(1) == Chain(5, [b"base"])

    @pytest.mark.parametrize("damage", [lose, spoil])
    def test_a_damaged_base_falls_back_to_the_chain_before_it(
        self, store: Store, snapshots: Snapshots, damage: object
    ) -> None:
        for version, parent in [(5, 0), (6, 5), (7, 0), (8, 7)]:
            snapshots.save(1, version, parent, b"blob of %d" % version)
        assert callable(damage)
        damage(store, 7, 0)
        assert snapshots.load(1) == Chain(6, [b"blob of 5", b"blob of 6"])

    def test_an_increment_without_its_base_is_no_chain(self, snapshots: Snapshots) -> None:
        snapshots.save(1, 6, 5, b"more")
        assert snapshots.load(1) == Chain(0, [])

    @pytest.mark.parametrize("parent", [5, 6, -1])
    def test_a_version_continues_an_older_one_only(self, snapshots: Snapshots, parent: int) -> None:
        with pytest.raises(SinkError, match="cannot continue"):
            snapshots.save(1, 5, parent, b"")

    def test_pruning_keeps_the_newest_bases_and_what_follows_them(
        self, store: Store, snapshots: Snapshots
    ) -> None:
        for version, parent in [(1, 0), (2, 1), (3, 0), (4, 3), (5, 0), (6, 5)]:
            snapshots.save(1, version, parent, b"v%d" % version)
        snapshots.save(2, 1, 0, b"other shard")
        snapshots.prune(1, keep=2)
        assert kept(store, 1, [3, 4, 5, 6]) == [3, 4, 5, 6]
        assert snapshots.load(1) == Chain(6, [b"v5", b"v6"])
        assert snapshots.load(2) == Chain(1, [b"other shard"])

    def test_pruning_does_not_count_an_incomplete_base(self, store: Store, snapshots: Snapshots) -> None:
        snapshots.save(1, 1, 0, b"whole")
        snapshots.save(1, 2, 0, b"0123456789")
        lose(store, 2, 1)
        snapshots.prune(1, keep=1)
        assert snapshots.load(1) == Chain(1, [b"whole"])

    def test_a_chain_begins_at_its_root_and_what_is_older_may_be_forgotten(
        self, store: Store, snapshots: Snapshots
    ) -> None:
        roots = {1: 1, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4}
        for version, root in roots.items():
            snapshots.save(1, version, version - 1, b"v%d" % version, root)
        assert snapshots.load(1) == Chain(6, [b"v4", b"v5", b"v6"])
        snapshots.prune(1, keep=2)
        assert kept(store, 1, [2, 3, 4, 5, 6]) == [2, 3, 4, 5, 6]
        lose(store, 6, 0)
        assert snapshots.load(1) == Chain(5, [b"v2", b"v3", b"v4", b"v5"])
        lose(store, 2, 0)
        assert snapshots.load(1) == Chain(0, [])  # of 3 and 4 the root is gone

    def test_a_root_that_is_not_complete_is_no_root(self, store: Store, snapshots: Snapshots) -> None:
        for version, root in {1: 1, 2: 1, 3: 1, 4: 2, 5: 4}.items():
            snapshots.save(1, version, version - 1, b"0123456789", root)
        lose(store, 5, 1)
        snapshots.prune(1, keep=2)
        assert snapshots.load(1) == Chain(4, [b"0123456789"] * 3)
        assert len(store.select(SNAPSHOTS, [Condition("version", "=", 1)], ("version",))) == 3  # its chunks

    def test_snapshots_of_earlier_versions_begin_at_the_one_without_parent(
        self, snapshots: Snapshots
    ) -> None:
        for version, parent, root in [(5, 0, 0), (6, 5, 0), (7, 6, 5), (8, 7, 5)]:
            snapshots.save(1, version, parent, b"%d" % version, root)
        assert snapshots.load(1) == Chain(8, [b"5", b"6", b"7", b"8"])

    def test_a_root_is_no_later_than_its_version(self, snapshots: Snapshots) -> None:
        with pytest.raises(SinkError, match="cannot begin at 6"):
            snapshots.save(1, 5, 4, b"", 6)

    def test_at_least_one_base_is_kept(self, snapshots: Snapshots) -> None:
        with pytest.raises(SinkError, match="at least one"):
            snapshots.prune(1, keep=0)


def archived(store: Store, shard: int, version: int, *jobs: tuple[str, bytes, int, int]) -> None:
    """Each job: id, state, first and last instant."""
    table = [
        {
            "shard": shard,
            "version": version,
            "job_id": job_id,
            "blob": blob,
            "first_ms": first_ms,
            "last_ms": last_ms,
        }
        for job_id, blob, first_ms, last_ms in jobs
    ]
    store.insert(ARCHIVE, rows(ARCHIVE, *table), f"archive:{shard}:{version}")


class TestArchive:
    def test_jobs_come_back_by_id(self, store: Store) -> None:
        archived(store, 1, 5, ("a", b"\x00\xff", 10, 20), ("b'\\", b"", 10, 30))
        assert store.archive.fetch(1, {"b'\\": 5, "a": 5, "absent": 5}) == {"a": b"\x00\xff", "b'\\": b""}
        assert store.archive.fetch(2, {"a": 5}) == {}
        assert store.archive.fetch(1, {}) == {}

    def test_every_state_of_a_job_archived_again_can_be_fetched(self, store: Store) -> None:
        archived(store, 1, 5, ("a", b"old", 10, 20))
        archived(store, 1, 6, ("a", b"new", 10, 40))
        assert store.archive.fetch(1, {"a": 5}) == {"a": b"old"}
        assert store.archive.fetch(1, {"a": 6}) == {"a": b"new"}
        assert store.archive.overlapping(1, 30, 31) == ["a"]

    def test_a_job_overlaps_up_to_its_last_instant(self, store: Store) -> None:
        archived(store, 1, 5, ("a", b"", 0, 19), ("b", b"", 0, 20), ("c", b"", 30, 40))
        assert store.archive.overlapping(1, 20, 31) == ["b", "c"]
        assert store.archive.overlapping(1, 20, 30) == ["b"]

    def test_many_jobs_are_asked_for_in_several_requests(self, store: Store) -> None:
        jobs = {f"job-{i:04}": bytes([i]) * 30 for i in range(100)}
        archived(store, 1, 5, *((job_id, blob, 0, 1) for job_id, blob in jobs.items()))
        assert Archive(store, ids_bytes=50).fetch(1, dict.fromkeys(jobs, 5)) == jobs


class TestReadback:
    def test_rows_newer_than_a_version(self, store: Store) -> None:
        given = [
            {"job_id": "old", "version": 5, "quantity": 1},
            {"job_id": "new", "version": 6, "quantity": 2},
            {"job_id": "other shard", "version": 6, "quantity": 2, "shard": 1},
        ]
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, *given), "t")
        assert store.readback.newer(JOB_MINUTES, 0, 5)["job_id"].to_pylist() == ["new"]

    def test_only_the_current_value_of_a_row_is_read(self, store: Store) -> None:
        for version in (6, 7):
            store.insert(
                NODE_MINUTES, rows(NODE_MINUTES, {"version": version, "quantity": version}), f"t{version}"
            )
        assert store.readback.newer(NODE_MINUTES, 0, 5)["quantity"].to_pylist() == [7]

    def test_rows_that_were_zeroed_are_read_too(self, store: Store) -> None:
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"version": 6, "quantity": 3}), "a")
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"version": 7, "quantity": 0}), "b")
        assert store.readback.newer(JOB_MINUTES, 0, 5)["version"].to_pylist() == [7]

    def test_tables_without_quantities_are_read_too(self, store: Store) -> None:
        store.insert(JOBS, rows(JOBS, {"version": 6}), "a")
        store.insert(JOB_USAGE_MINUTES, rows(JOB_USAGE_MINUTES, {"version": 6}), "b")
        assert store.readback.newer(JOBS, 0, 5).num_rows == 1
        assert store.readback.newer(JOB_USAGE_MINUTES, 0, 5).num_rows == 1

    def test_books_of_a_partition_are_read_with_their_letters(self, store: Store) -> None:
        for table in (BOOKS, DEAD_LETTER_COUNTS):
            given = [
                {"topic": "jobs", "version": 5, "partition": 1},
                {"topic": "gpu", "version": 6, "partition": 1},
                {"topic": "gpu", "version": 6, "partition": 2},
            ]
            store.insert(table, rows(table, *given), f"t:{table}")
        for found in store.readback.newer_books(1, 5):
            assert list(zip(*(found[name].to_pylist() for name in ("topic", "partition")), strict=True)) == [
                ("gpu", 1)
            ]

    def test_tables_without_shards_are_refused(self, store: Store) -> None:
        with pytest.raises(SinkError, match="do not belong to a shard"):
            store.readback.newer(PRICES, 0, 5)

    def test_whether_rows_lie_between_two_versions(self, store: Store) -> None:
        given = [
            {"job_id": "old", "version": 5},
            {"job_id": "late", "version": 7},
            {"job_id": "own", "version": 9},
            {"job_id": "other shard", "version": 7, "shard": 1},
        ]
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, *given), "t")
        between = store.readback.any_between
        assert between(JOB_MINUTES, 0, 5, 8)
        assert not between(JOB_MINUTES, 0, 5, 7), "neither end counts"
        assert not between(JOB_MINUTES, 0, 7, 9)
        assert not between(JOB_MINUTES, 2, 5, 8)
        assert not between(NODE_MINUTES, 0, 5, 8)
        with pytest.raises(SinkError, match="do not belong to a shard"):
            between(PRICES, 0, 5, 8)

    def test_the_greatest_version_of_a_shard(self, store: Store) -> None:
        assert store.readback.max_version(0) == 0
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, {"version": 6}), "a")
        store.insert(NODE_MINUTES, rows(NODE_MINUTES, {"version": 8}), "b")
        store.insert(JOBS, rows(JOBS, {"version": 99, "shard": 1}), "c")
        assert store.readback.max_version(0) == 8
        store.snapshots.save(0, 9, 0, b"")
        assert store.readback.max_version(0) == 9
        # An owner may have stored nothing but these before it died; its successor must not come below it.
        store.insert(ALERTS, rows(ALERTS, {"version": 10}), "d")
        assert store.readback.max_version(0) == 10
        store.insert(BURN_RATES, rows(BURN_RATES, {"version": 11}), "e")
        assert store.readback.max_version(0) == 11


class TestMeta:
    def test_a_value_is_kept_and_replaced(self, store: Store) -> None:
        assert store.meta.get("log") is None
        for value in ("a", "b", "a"):
            store.meta.put("log", value)
            assert store.meta.get("log") == value

    def test_the_first_claim_holds_and_agrees_with_itself(self, store: Store) -> None:
        for _ in range(2):
            store.meta.set_once("log", "mine")
        assert store.meta.get("log") == "mine"

    def test_another_claim_is_a_mismatch_and_changes_nothing(self, store: Store) -> None:
        store.meta.set_once("log", "mine")
        with pytest.raises(StoreMismatch, match="its log is `mine`, not `theirs`; use --append"):
            store.meta.set_once("log", "theirs", "use --append")
        assert store.meta.get("log") == "mine"
