"""Bills are loaded through a process that has the store open: the same as without one, with each guard on the way there."""

from __future__ import annotations

import asyncio
import gzip
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from streams.bills.apart import BillLoad
from streams.bills.limits import BYTES_MAX
from streams.bills.loading_wire import UploadedFile
from streams.errors import TrainfareError, WrongUseError
from streams.keys import OutgoingRecord
from streams.web import bill_uploads, bills
from streams.web.bill_uploads import BillUploads
from streams.web.errors import ApiError
from tests.bills.bill import NOW_MS, line, loaded, text_of, written
from tests.cli.command import Done, trainfare
from tests.new_store import begun
from tests.web.serving import LOCAL, Client, served

UPLOAD = "0123456789abcdef" * 2
OTHER = "fedcba9876543210" * 2
BYTES = {"Content-Type": "application/octet-stream"}
BILL = text_of([line(), line(ResourceId="n2", ChargeClass="Correction", BilledCost="-0.5")]).encode()
MAY_WRITE = {"read_token": "a-token-of-sixteen-for-readers", "write_token": "a-token-of-sixteen-for-writers"}


_COLUMNS = ", ".join(name for name in SCHEMAS["bill_lines"].names if name != "version")
_LINES = f"SELECT toString(({_COLUMNS})) AS line FROM bill_lines FINAL ORDER BY load_id, bill_lines.line"


class NoLog:
    """A log of records to which nothing is written here."""

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        raise AssertionError("a bill is no record")


async def piece(client: Client, data: bytes, status: int = 200, **given: Any) -> Any:
    asked = {"upload": UPLOAD, "file": 0, "offset": 0, **given}
    headers = {**LOCAL, **BYTES, **asked.pop("headers", {})}
    url = f"{client.server.url}/api/v1/bills/pieces"
    async with client.session.post(url, params=asked, data=data, headers=headers) as answer:
        assert answer.status == status, await answer.read()
        return await answer.json()


async def load(client: Client, *names: str, status: int = 200, **given: Any) -> Any:
    body = {"upload": UPLOAD, "files": names, **given}
    async with client.session.post(f"{client.server.url}/api/v1/bills", json=body, headers=LOCAL) as answer:
        assert answer.status == status, await answer.read()
        return await answer.json()


@pytest.fixture(autouse=True)
def scratch(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of this test alone: tests of other processes load bills meanwhile."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("scratch")))


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("trainfare-bills-*"))


# -- the same as without a worker ------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_comes_in_pieces(packed: bool, store: ClickHouseStore, tmp_path: Path) -> None:
    path = written(tmp_path / "october.csv", line(), line(ResourceId="n2", BilledCost="0.25"))
    content = path.read_bytes()
    sent = gzip.compress(content) if packed else content
    name = f"{path}.gz" if packed else str(path)
    before = folders()

    async def work(client: Client) -> Any:
        middle = len(sent) // 2
        await piece(client, sent[:middle])
        await piece(client, sent[:middle])  # sent again: its answer was lost
        await piece(client, sent[middle:], offset=middle)
        return await load(client, name)

    answer = served(store, work, controls=NoLog(), wall_ms=NOW_MS)
    assert answer["files"] == [
        {
            "name": name,
            "lines": 2,
            "billed_usd": "1.750000000000000000",
            "corrections": 0,
            "other_currency_lines": 0,
            "rounded": 0,
            "is_new": True,
            "replaces": [],
            "format": "FOCUS",
            "notes": [],
        }
    ]
    (row,) = store.select("bill_loads").to_pylist()
    assert (row["file"], row["lines"], row["time"].timestamp() * 1_000) == (Path(name).name, 2, NOW_MS)
    assert folders() == before, "what was sent is removed"


def test_commands_load_list_and_reconcile_through_a_process_that_has_the_store(
    store: ClickHouseStore, tmp_path: Path
) -> None:
    parts = tmp_path / "october"
    parts.mkdir()
    first = written(parts / "1.csv", line(), line(BillingCurrency="EUR"))
    (parts / "2.csv.gz").write_bytes(gzip.compress(text_of([line(ResourceId="n2", BilledCost="4")]).encode()))
    big = written(
        tmp_path / "big.csv", *(line(BillingAccountId="b", ResourceId=f"n{n}") for n in range(12_000))
    )
    assert big.stat().st_size > 2 * bills.PIECE_MAX_BYTES
    token = "a-token-of-sixteen-and-more"
    env = {"TRAINFARE_WEB_TOKEN": token}

    commands = [
        ("load", parts),
        ("load", parts),
        ("load", first, big),
        ("load", first, "--replace"),
        ("list", "--format", "csv"),
        ("reconcile", "--by", "account", "--format", "csv"),
        ("load", big, "--data", tmp_path),
    ]

    def ask(words: tuple[object, ...], env: dict[str, str]) -> Any:
        async def work(client: Client) -> Done:
            return await asyncio.to_thread(trainfare, "bills", *words, "--url", client.server.url, env=env)

        return served(store, work, controls=NoLog(), token=token)

    done = [ask(words, env) for words in commands] + [ask(commands[0], {})]
    alone = begun(tmp_path / "meter")
    for at, words in enumerate([(parts,), (parts,), (first, big), (first, "--replace")]):
        same = trainfare("bills", "load", *words, "--data", alone)
        assert (done[at].code, done[at].out, done[at].err) == (same.code, same.out, same.err), words
    assert [each.code for each in done] == [0, 0, 0, 0, 0, 0, 2, 1]
    assert "1 line in other currencies" in done[0].out
    assert "charged to nobody until `trainfare fx load FILE`" in done[0].out
    assert f"{first}: loaded already, nothing changed" in done[2].out
    listed = trainfare("bills", "list", "--data", alone, "--format", "csv").out
    without_time = [[*row.split(",")[:10], row.split(",")[-1]] for row in done[4].out.splitlines()]
    assert without_time == [[*row.split(",")[:10], row.split(",")[-1]] for row in listed.splitlines()]
    assert (
        done[5].out
        == trainfare("bills", "reconcile", "--by", "account", "--data", alone, "--format", "csv").out
    )
    (said, *rows) = trainfare("sql", _LINES, "--data", alone, "--format", "csv").out.splitlines()
    assert (said, len(rows)) == ("line", 12_003)
    assert rows == ['"' + str(row[0]).replace('"', '""') + '"' for row in store.ask(_LINES).rows()]
    assert "leave out --data" in done[6].one_line()
    assert "TRAINFARE_WEB_TOKEN" in done[7].one_line()


def test_a_wrong_bill_is_refused_in_the_same_words(store: ClickHouseStore, tmp_path: Path) -> None:
    path = written(tmp_path / "wrong.csv", line(), line(BilledCost="much"))
    with pytest.raises(WrongUseError) as alone:
        loaded(store, path)

    async def work(client: Client) -> Any:
        await piece(client, path.read_bytes())
        return await load(client, str(path), status=400)

    error = served(store, work, controls=NoLog())["error"]
    assert error == {"code": "bill_refused", "message": str(alone.value)}
    assert not store.select("bill_lines").num_rows


# -- what guards it --------------------------------------------------------------------------------------------


def test_without_the_scope_nothing_is_kept(store: ClickHouseStore) -> None:
    before = folders()

    async def work(client: Client) -> None:
        for shown, status in (({}, 401), ({"Authorization": f"Bearer {MAY_WRITE['read_token']}"}, 403)):
            for path in ("/api/v1/bills/pieces", "/api/v1/bills"):
                async with client.session.post(client.server.url + path, data=BILL, headers=shown) as answer:
                    assert answer.status == status, path
        assert folders() == before
        writer = {"Authorization": f"Bearer {MAY_WRITE['write_token']}"}
        await piece(client, BILL, headers=writer)
        await load(client, "october.csv", status=404)  # that of another token

    served(store, work, controls=NoLog(), **MAY_WRITE)
    assert folders() == before, "what was not loaded is removed with the server"


def test_a_process_that_meters_no_log_loads_no_bills(store: ClickHouseStore) -> None:
    async def work(client: Client) -> Any:
        await load(client, "october.csv", status=403)
        return await piece(client, BILL, status=403)

    assert served(store, work)["error"]["code"] == "bills_off"


def test_pieces_are_bounded_and_packed_ones_refused(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        await piece(client, b"x" * (bills.PIECE_MAX_BYTES + 1), status=413)
        await piece(client, gzip.compress(BILL), status=415, headers={"Content-Encoding": "gzip"})
        await piece(client, BILL, status=415, headers={"Content-Type": "text/plain"})
        for wrong in ({"upload": "../../etc"}, {"file": "-1"}, {"offset": "1e9"}, {"other": "1"}):
            await piece(client, BILL, status=400, **wrong)
        await piece(client, BILL, status=409, offset=5)

    served(store, work, controls=NoLog())


def test_a_load_must_name_the_files_that_came(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        await load(client, "october.csv", status=404)
        await piece(client, BILL)
        await load(client, "october.csv", "another.csv", status=409)
        await load(client, "x" * 5_000, status=400)
        await load(client, status=400)
        await load(client, "october.csv", status=400, unknown=1)
        await load(client, "october.csv")
        await load(client, "october.csv", status=404)

    served(store, work, controls=NoLog())


def test_a_bomb_ends_at_the_limit_of_unpacked_bytes(store: ClickHouseStore, tmp_path: Path) -> None:
    """Two megabytes that unpack to two thousand of empty lines."""
    member = gzip.compress(b"\n" * 2**20)
    bomb = tmp_path / "0.gz"
    bomb.write_bytes(gzip.compress(BILL) + member * (BYTES_MAX // 2**20 + 1))
    with pytest.raises(WrongUseError, match="lines; split it"):
        BillLoad([UploadedFile("bomb.csv.gz", str(bomb))], NOW_MS, replace=False).run(store)
    assert not store.select("bill_lines").num_rows


def test_a_load_ends_at_its_time_and_when_it_is_killed(store: ClickHouseStore, tmp_path: Path) -> None:
    path = written(tmp_path / "0", *(line(ResourceId=f"n{n}") for n in range(50_000)))
    files = [UploadedFile("long.csv", str(path))]
    with pytest.raises(TrainfareError, match="1 s of processor time"):
        BillLoad(files, NOW_MS, replace=False, cpu_s=1).run(store)
    load = BillLoad(files, NOW_MS, replace=False)
    load.kill()
    with pytest.raises(TrainfareError, match="their sender left"):
        load.run(store)
    assert not store.select("bill_loads").num_rows


def test_what_cannot_be_unpacked_is_said(store: ClickHouseStore, tmp_path: Path) -> None:
    path = tmp_path / "0.gz"
    path.write_bytes(gzip.compress(BILL)[:-20])
    with pytest.raises(WrongUseError, match=r"a file cannot be unpacked: .*nothing is loaded"):
        BillLoad([UploadedFile("cut.csv.gz", str(path))], NOW_MS, replace=False).run(store)


def test_uploads_share_a_number_of_bytes_and_of_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bill_uploads, "UPLOADS_MAX_BYTES", 10)
    uploads = BillUploads()
    try:
        uploads.append("ada", UPLOAD, 0, 0, b"12345678", 0)
        with pytest.raises(ApiError, match="more than 10 bytes"):
            uploads.append("bob", OTHER, 0, 0, b"123", 0)
        assert uploads.held_bytes == 8, "the upload that has no room is gone, and no other"
        uploads.append("ada", OTHER, 0, 0, b"1", 0)
        with pytest.raises(ApiError, match="other bills are being loaded"):
            uploads.append("ada", "a" * 32, 0, 0, b"1", 0)
        uploads.append("bob", OTHER, 0, 0, b"1", 1)
        assert uploads.held_bytes == 10
        before = folders()
        uploads.forget(bill_uploads.FORGOTTEN_AFTER_MS)
        assert uploads.held_bytes == 1, "what nobody goes on with is removed"
        assert len(before - folders()) == 2
    finally:
        uploads.close()


def test_an_upload_that_is_being_loaded_is_closed() -> None:
    uploads = BillUploads()
    try:
        uploads.append("ada", UPLOAD, 0, 0, BILL, 0)
        (file,) = uploads.begin_load("ada", UPLOAD, ["x.csv.gz"])
        assert Path(file.path).name == "0.gz"
        with pytest.raises(ApiError, match="being loaded"):
            uploads.append("ada", UPLOAD, 0, len(BILL), b"more", 0)
        uploads.forget(10 * bill_uploads.FORGOTTEN_AFTER_MS)
        assert uploads.held_bytes == len(BILL)
    finally:
        uploads.close()


def test_a_disk_that_is_full_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(ApiError, match="there is no room for the bill in"):
        BillUploads().append("ada", UPLOAD, 0, 0, BILL, 0)
