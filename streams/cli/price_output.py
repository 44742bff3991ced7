"""What the commands of prices have in common: prices as a table, the prices of a store, warnings, and Kafka."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

import orjson

from schemas.counting import how_many
from schemas.escaping import visible
from schemas.events import Component, PriceEvent
from schemas.units import NANO_PER_USD, Per, per_text
from streams.accounts.account import Account
from streams.accounts.record import source_record
from streams.cli.output import Grid
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError, WrongUseError
from streams.prices.findings import Finding
from streams.prices.instants import since
from streams.prices.records import PriceRecord
from streams.topics import Topic

if TYPE_CHECKING:
    from streams.cli.reading import Reader
    from streams.cli.remote import RemoteReader

WARNINGS_SHOWN: Final = 100
#: As `streams.web.prices` takes them.
_PIECE_PRICES: Final = 200
_PIECE_BYTES: Final = 200 * 1024
_BY_WORKER: Final = ("source", "id", "time_ms", "specversion")
_BOOK: Final = """
SELECT sku, component, usd, per, gpus, toUnixTimestamp64Milli(effective) AS effective_ms, mapKeys(match) AS fields,
       mapValues(match) AS holding, source, id,
       toUnixTimestamp64Milli(time) AS time_ms
FROM prices FINAL ORDER BY sku, effective_ms
"""


def plain_usd(usd_nano: int) -> str:
    """Dollars for people, without zeros at the end but with cents."""
    whole, nano = divmod(usd_nano, NANO_PER_USD)
    return f"{whole}.{f'{nano:09d}'.rstrip('0').ljust(2, '0')}"


def book_of(store: Reader) -> list[PriceEvent]:
    """The revisions of the store's prices.

    Raises:
        TrainfareError: The store cannot be asked.
    """
    rows = store.records(_BOOK)
    return [
        PriceEvent(
            source=str(row["source"]),
            id=str(row["id"]),
            time_ms=int(str(row["time_ms"])),
            sku=str(row["sku"]),
            component=Component(str(row["component"])),
            usd_nano=int(Decimal(str(row["usd"])) * NANO_PER_USD),
            per=Per(str(row["per"])),
            gpus=int(str(row["gpus"])),
            effective_ms=int(str(row["effective_ms"])),
            match=dict(zip(_texts(row["fields"]), _texts(row["holding"]), strict=True)),
        )
        for row in rows
    ]


def _texts(value: object) -> list[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else []


def match_text(match: dict[str, str]) -> str:
    """What a price applies to."""
    return " ".join(f"{name}={value}" for name, value in match.items()) or "everything"


def price_grid(records: Sequence[PriceRecord]) -> Grid:
    """Records as a table: when each begins, what it is for."""
    rows = [
        (
            line, event.sku, event.component, plain_usd(event.usd_nano), per_text(event.per, event.gpus),
            since(event.effective_ms), match_text(event.match),
        )
        for line, _, _, event in records
    ]  # fmt: skip
    return Grid(("line", "sku", "component", "usd", "per", "since", "for"), rows)


def warn(found: Sequence[Finding], *, strict: bool) -> None:
    """Write findings as warnings to stderr.

    Raises:
        WrongUseError: There are some, and they are errors.
    """
    for each in found[:WARNINGS_SHOWN]:
        sys.stderr.write(f"warning: {visible(str(each))}\n")
    if len(found) > WARNINGS_SHOWN:
        sys.stderr.write(f"warning: and {len(found) - WARNINGS_SHOWN} more like these\n")
    if found and strict:
        raise WrongUseError(f"--strict: {how_many(len(found), 'warning')}; nothing was published")


def publish_prices(kafka: KafkaSettings, records: Sequence[PriceRecord]) -> None:
    """Publish prices, and say so once all are acknowledged.

    Raises:
        TrainfareError: Kafka did not take them all.
    """
    from streams.transport.producer import LogProducer  # loads Kafka clients; not needed to refuse a file

    with LogProducer(kafka) as producer:
        for record in records:
            producer.send(Topic.PRICES, record.key, record.value)
    sys.stdout.write(
        f"{how_many(producer.acknowledged, 'price')} acknowledged by {kafka.bootstrap_servers}\n"
    )


def send_prices(worker: RemoteReader, records: Sequence[PriceRecord], comment: str, where: str) -> None:
    """Send prices to a worker in pieces, and say what it published and what waits for a second person.

    Raises:
        TrainfareError: It refuses a piece; those before it are published.
    """
    published, waits, ids, skipped = 0, 0, list[str](), ""
    for piece in _pieces(records):
        try:
            done = worker.publish_prices(piece, comment)
        except TrainfareError as fault:
            said = f"{published} of {len(records)} prices are published, {waits} wait; send the file again once this is mended"
            raise TrainfareError(f"{fault}; {said}") from None
        published, waits = published + int(done.get("prices", 0)), waits + int(done.get("waits", 0))
        ids += done.get("requests", [])
        skipped = "" if ids else str(done.get("second_person", skipped))
    sys.stdout.write(f"{how_many(published, 'price')} taken by {visible(where)}\n")
    if skipped:
        sys.stderr.write(f"note: some move more than three times; {visible(skipped)}\n")
    if ids:
        sys.stdout.write(
            f"{how_many(waits, 'price moves', 'prices move')} more than three times: no effect until another person confirms within an hour\n"
            + "".join(f"  trainfare approve {visible(each)}\n" for each in ids)
        )


def _pieces(records: Sequence[PriceRecord]) -> Iterator[list[dict[str, object]]]:
    """Yield the prices of records in the pieces that a worker takes; it sets who sent them and when."""
    piece, size = list[dict[str, object]](), 0
    for record in records:
        if piece and (len(piece) >= _PIECE_PRICES or size + len(record.value) > _PIECE_BYTES):
            yield piece
            piece, size = [], 0
        fields: dict[str, object] = orjson.loads(record.value)
        piece.append({name: value for name, value in fields.items() if name not in _BY_WORKER})
        size += len(record.value)
    if piece:
        yield piece


def publish_account(kafka: KafkaSettings, name: str, account: Account, now_ms: int) -> None:
    """Publish what became of all offers of a list, for `trainfare sources`; that it fails is a note: the prices are there.

    Raises:
        WrongUseError: The settings of Kafka are wrong.
    """
    from streams.transport.producer import LogProducer  # loads Kafka clients; not needed to refuse a file

    record = source_record(name, account, 1, sorted(account.examples), now_ms)
    try:
        with LogProducer(kafka) as producer:
            producer.send(Topic.CONTROLS, f"source/{name}".encode(), orjson.dumps(record))
    except TrainfareError as fault:
        sys.stderr.write(f"note: `trainfare sources` will not show this list: {visible(str(fault))}\n")
