"""Reads the catalogue of SkyPilot (`catalogs/v8/CLOUD/vms.csv`): prices of whole instances by region and zone.

An on-demand price has no `purchase`, so that it also holds for what no other price does. A zone is named only where the
zones of a region differ. Google lists hosts and GPUs in rows apart: an instance of a family whose GPUs follow from its
name costs the sum of both, per zone; other hosts are `compute`, and GPUs without such a host are priced alone.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from streams.errors import WrongUseError
from streams.prices.csv_rows import table
from streams.prices.instance_gpus import gpus_of, gpus_of_google
from streams.prices.offers import SourceRow, place_of
from streams.prices.opencost import exact_usd, plain_usd
from streams.prices.source import PriceList

_NEEDED: Final = ("instancetype", "acceleratorname", "acceleratorcount", "price", "spotprice", "region")
_ZONE_ID: Final = re.compile(r"[a-z]{2,5}[0-9]-(?:[a-z0-9]+-)?az[0-9]+")


class _Offer(NamedTuple):
    """What one zone charges for an instance, or for its GPUs alone."""

    line: int
    instance_type: str  # empty: GPUs alone
    gpu_type: str  # empty: no GPUs
    gpus: int
    region: str
    zone: str  # empty: the region has one price
    usd: dict[str, Decimal]  # by purchase; without what is not offered


def of_skypilot(given: PriceList) -> Iterator[SourceRow]:
    """Yield a record for each instance or GPU, region, zone if they differ, and purchase.

    Raises:
        WrongUseError: It is no catalogue, a row is faulty, or the cloud is not named.
    """
    if not given.cloud:
        raise WrongUseError(f"{given.name}: a catalogue does not say of which cloud it is; add --cloud NAME")
    offers = list(_offers(given))
    if any(not offer.instance_type for offer in offers):
        offers = list(_joined(given, offers))
    offers = [offer for offer in offers if _is_taken(given, offer)]
    for purchase in ("on_demand", "spot"):
        for offer, zone in _by_place(given, offers, purchase):
            yield _row(given, offer, zone, purchase)


def zone_ids(zones: Iterable[str]) -> int:
    """How many zones are named by AWS's id (`use1-az4`), which jobs usually know by another name."""
    return sum(1 for zone in zones if _ZONE_ID.fullmatch(zone))


def _is_taken(given: PriceList, offer: _Offer) -> bool:
    place = place_of(offer.instance_type or offer.gpu_type, offer.zone or offer.region)
    known = gpus_of(offer.instance_type, {})
    count = 0 if known is None else known.gpu_count
    if count and not offer.gpus:  # the price of the host alone, or a row that lacks its GPUs
        given.offers.missed("host_without_gpus", place)
        return False
    if count and offer.gpus != count:
        given.offers.missed("gpus_differ", f"{place}: {offer.gpus} GPUs, and it has {count}")
        return False
    if offer.usd:
        given.offers.taken(place=place)
    else:
        given.offers.passed("without_price", place if offer.gpus else "")
    return bool(offer.usd)


def _offers(given: PriceList) -> Iterator[_Offer]:
    names: list[str] | None = None
    for line, cells in table(given):
        if names is None:
            names = [cell.lower() for cell in cells]
            missing = [name for name in _NEEDED if name not in names]
            if missing:
                raise given.fault(line, f"the header of a catalogue has no column {', '.join(missing)}")
            continue
        if len(cells) != len(names):
            raise given.fault(line, f"{len(cells)} cells, expected {len(names)} as in the header")
        offer = _offer(given, line, dict(zip(names, cells, strict=True)))
        if offer is not None:
            yield offer


def _offer(given: PriceList, line: int, row: dict[str, str]) -> _Offer | None:
    gpu_type, count = row["acceleratorname"], row["acceleratorcount"]
    gpus = 0
    if gpu_type:
        try:
            given_gpus = Decimal(count) if len(count) <= 12 else Decimal(0)
        except InvalidOperation:
            given_gpus = Decimal(0)
        if not (given_gpus.is_finite() and 0 < given_gpus <= 1_000_000):
            raise given.fault(
                line, f"column `AcceleratorCount`: got {count[:80]!r}, expected a number of GPUs"
            )
        if given_gpus % 1:
            given.offers.missed("gpu_share", f"{row['instancetype'][:80]}: {count} {gpu_type[:80]}")
            return None
        gpus = int(given_gpus)
    if not row["region"] or not (row["instancetype"] or gpu_type):
        raise given.fault(line, "a row names a Region, and an InstanceType or an AcceleratorName")
    usd = {}
    for purchase, column in (("on_demand", "Price"), ("spot", "SpotPrice")):
        text = row[column.lower()]
        if text:
            try:
                asked = exact_usd(text)
            except ValueError as fault:
                raise given.fault(line, f"column `{column}`: got {text[:80]!r}, {fault}") from None
            if asked:  # $0 is no price: it would make a job free
                usd[purchase] = asked
    return _Offer(
        line, row["instancetype"], gpu_type, gpus, row["region"], row.get("availabilityzone", ""), usd
    )


def _joined(given: PriceList, offers: list[_Offer]) -> Iterator[_Offer]:
    """Add GPUs to the hosts that need them; yield GPUs without a host once per type and zone."""
    alone = {
        (each.gpu_type, each.gpus, each.region, each.zone): each for each in offers if not each.instance_type
    }
    used: set[tuple[str, int, str, str]] = set()
    for host in offers:
        if not host.instance_type:
            continue
        named = gpus_of_google(host.instance_type)
        if host.gpu_type or named is None:
            yield host
            continue
        key = (named.gpu_type, named.gpu_count, host.region, host.zone)
        if key not in alone:
            given.offers.missed("host_without_gpus", place_of(host.instance_type, host.zone or host.region))
        else:
            used.add(key)
            gpus = alone[key]
            both = {name: usd + gpus.usd[name] for name, usd in host.usd.items() if name in gpus.usd}
            yield host._replace(gpu_type=named.gpu_type, gpus=gpus.gpus, usd=both)
    seen: set[tuple[str, str, str]] = set()
    for key, offer in sorted(alone.items()):
        place = (offer.gpu_type, offer.region, offer.zone)
        if key in used:
            given.offers.taken()
        elif place in seen:
            given.offers.passed("same_gpu")
        else:
            seen.add(place)
            yield offer


def _by_place(given: PriceList, offers: list[_Offer], purchase: str) -> Iterator[tuple[_Offer, str]]:
    """Yield the offers of a purchase, each with the zone that its price names: none where all zones agree."""
    places: dict[tuple[str, str, str], list[_Offer]] = defaultdict(list)
    for offer in offers:
        places[offer.instance_type, offer.gpu_type, offer.region].append(offer)
    for group in places.values():
        _listed_once(given, group)
        zones = {offer.zone: offer for offer in group if purchase in offer.usd}
        prices = {offer.usd[purchase] / (offer.gpus or 1) for offer in zones.values()}
        if len(prices) == 1 and len(zones) == len({offer.zone for offer in group}):
            yield next(iter(zones.values())), ""
        else:
            for zone, offer in zones.items():
                yield offer, zone


def _listed_once(given: PriceList, group: list[_Offer]) -> None:
    """Refuse a catalogue with two prices for one place: nothing says which is right."""
    first: dict[str, _Offer] = {}
    for offer in group:
        other = first.setdefault(offer.zone, offer)
        if other.usd != offer.usd or other.gpus != offer.gpus:
            what = offer.instance_type or offer.gpu_type
            where = offer.zone or offer.region
            raise given.fault(offer.line, f"{what} in {where} has other prices on line {other.line}")


def _row(given: PriceList, offer: _Offer, zone: str, purchase: str) -> SourceRow:
    spot = "spot" if purchase == "spot" else ""
    what = offer.instance_type or f"gpu.{offer.gpu_type}"
    record: dict[str, object] = {
        "sku": ".".join(filter(None, (given.cloud, what, zone or offer.region, spot))),
        "component": "gpu" if offer.gpus else "compute",
        "usd": plain_usd(offer.usd[purchase]),
        "per": "instance_hour",
        "effective_ms": given.from_ms,
        "cloud": given.cloud,
        "region": offer.region,
    }
    optional = {
        "zone": zone,
        "instance_type": offer.instance_type,
        "gpu_type": offer.gpu_type,
        "purchase": spot,
    }
    if offer.gpus:
        record["gpus"] = offer.gpus
    return SourceRow(offer.line, record | {name: value for name, value in optional.items() if value})
