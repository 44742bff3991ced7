"""Each offer of a price list is taken, passed over by a rule, or said with what mends it; the three sum to what the list has."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from schemas.events import PriceEvent
from schemas.units import Per
from streams.accounts.account import Account
from streams.accounts.causes import REMEDIES
from streams.errors import WrongUseError
from streams.prices.records import format_of, records_of
from streams.prices.source import PriceList
from tests.cli.command import trainfare
from tests.prices.given import DATA, NOW_MS
from tests.source_cases import CASES

HERE: Final = Path(__file__).parent / "clouds"
H100: Final = "Standard_ND96isr_H100_v5"


def accounted(content: bytes, name: str = "p.json", cloud: str | None = None) -> tuple[list[str], Account]:
    """Return the SKUs that are read, and the account."""
    given = PriceList(name, content, cloud)
    records = records_of(given, format_of(given), NOW_MS)
    return [each.event.sku for each in records], given.offers.total()


def aws(*changes: dict[str, str], usd: str = "0.01") -> bytes:
    """Return an answer of GetProducts: a p5 at $55.04, and for each of `changes` another product with these attributes."""
    first = json.loads(json.loads((HERE / "aws.json").read_bytes())["PriceList"][0])
    offers = [first]
    for number, attributes in enumerate(changes):
        other = json.loads(json.dumps(first).replace("55.0400000000", usd))
        other["product"]["sku"] = f"OTHER{number}"
        other["product"]["attributes"] |= attributes
        offers.append(other)
    return json.dumps({"PriceList": offers}).encode()


@pytest.mark.parametrize(
    ("attributes", "rule"),
    [
        ({"marketoption": "CapacityBlock"}, "a capacity block: paid in advance"),
        ({"operatingSystem": "Windows"}, "of another system than Linux"),
        ({"preInstalledSw": "SQL Std"}, "of another system than Linux"),
        ({"tenancy": "Dedicated"}, "of dedicated hosts or tenancy"),
        ({"capacitystatus": "UnusedCapacityReservation"}, "reserved capacity that nobody uses"),
    ],
)
def test_gpus_that_are_sold_on_other_terms_only_are_named(attributes: dict[str, str], rule: str) -> None:
    elsewhere = attributes | {"regionCode": "eu-north-1"}
    skus, account = accounted(aws(attributes, elsewhere))
    assert skus == ["aws.p5.48xlarge.us-east-1"]
    assert (account.read, account.reasons["no_plain_price"], len(account.reasons)) == (3, 1, 2)
    assert account.said[0].startswith(f"p5.48xlarge in eu-north-1: {rule}")
    assert REMEDIES["no_plain_price"] in str(account)


def test_an_instance_without_gpus_on_other_terms_is_passed_over_alone() -> None:
    _, account = accounted(aws({"instanceType": "c5.large", "gpu": "0", "tenancy": "Host"}))
    assert account.reasons == {"dedicated": 1}


def test_two_products_of_one_instance_with_two_prices_are_neither() -> None:
    skus, account = accounted(aws({}, {"regionCode": "eu-north-1"}))
    assert skus == ["aws.p5.48xlarge.eu-north-1"]
    assert (account.reasons, account.said[0]) == (
        {"two_prices": 2},
        "aws.p5.48xlarge.us-east-1: $0.01 and $55.04",
    )
    skus, account = accounted(aws({}, usd="55.04"))
    assert (set(skus), account.reasons) == ({"aws.p5.48xlarge.us-east-1"}, {})


def test_meters_of_azure_that_are_not_known_refuse_no_page() -> None:
    page = json.loads((HERE / "azure.json").read_bytes())
    plain = page["Items"][0]
    for name in ("Standard_NV6ads_A10_v5", "Standard_B2s", "Standard_G5"):
        page["Items"].append(plain | {"armSkuName": name})
    skus, account = accounted(json.dumps(page).encode())
    assert {"azure.Standard_B2s.eastus", "azure.Standard_G5.eastus", f"azure.{H100}.eastus"} <= {*skus}
    assert not [sku for sku in skus if "A10" in sku]
    assert account.reasons["unlisted_instance"] == 1
    assert account.said == ["Standard_NV6ads_A10_v5 in eastus"]


def test_two_meters_of_azure_with_two_prices_are_neither() -> None:
    page = json.loads((HERE / "azure.json").read_bytes())
    page["Items"] = [
        page["Items"][0] | {"meterId": each, "retailPrice": usd} for each, usd in (("a", 1), ("b", 2))
    ]
    with pytest.raises(WrongUseError, match=r"2 two_prices; first: azure.*: \$1 and \$2"):
        accounted(json.dumps(page).encode())
    page["Items"][1]["meterId"] = "a"
    page["Items"][1]["effectiveStartDate"] = "2026-09-01T00:00:00Z"
    assert len(accounted(json.dumps(page).encode())[0]) == 2, "revisions of one meter"


def test_spot_prices_of_instances_whose_gpus_are_not_known_refuse_no_history() -> None:
    history = json.loads((HERE / "aws-spot.json").read_bytes())
    history["SpotPriceHistory"].append(history["SpotPriceHistory"][0] | {"InstanceType": "p99.48xlarge"})
    skus, account = accounted(json.dumps(history).encode())
    assert len(skus) == 3
    assert account.said == ["spot p99.48xlarge in us-east-1a"]


@pytest.mark.parametrize(
    ("description", "group", "usage", "reason"),
    [
        (
            "Nvidia H100 80GB GPU attached to DWS Defined Duration VMs running in Americas",
            "GPU",
            "OnDemand",
            "unlisted_gpu",
        ),
        (
            "Commitment v1: Nvidia H100 80GB GPU running in Americas for 1 Year",
            "GPU",
            "Commit1Yr",
            "commitment",
        ),
        ("Tpu-v5e Chip running in Americas", "TPU", "OnDemand", "unlisted_gpu"),
        ("A3 Instance Core running in Americas", "CPU", "OnDemand", "host_parts"),
    ],
)
def test_skus_of_google_that_are_no_price_of_a_gpu(
    description: str, group: str, usage: str, reason: str
) -> None:
    page = json.loads((HERE / "gcp.json").read_bytes())
    _, before = accounted(json.dumps(page).encode())
    category = {"resourceGroup": group, "usageType": usage}
    page["skus"].append(page["skus"][0] | {"description": description, "category": category})
    _, account = accounted(json.dumps(page).encode())
    assert account.reasons == before.reasons | {reason: before.reasons.get(reason, 0) + 1}
    if reason == "unlisted_gpu":
        assert f"{usage} {description}" in account.said


HEADER: Final = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,AvailabilityZone"
)


@pytest.mark.parametrize(
    ("row", "reasons", "said"),
    [
        (
            "p5.48xlarge,H100,8,192,2048,0,,r1,",
            {"no_plain_price": 1},
            "p5.48xlarge in r1: the list names no price for it",
        ),
        (
            "p5.48xlarge,H100,8,192,2048,,,r1,",
            {"no_plain_price": 1},
            "p5.48xlarge in r1: the list names no price for it",
        ),
        ("c5.large,,,2,4,,,r1,", {"without_price": 1}, ""),
        (
            "a3-highgpu-8g,,,208,1872,12,3,r1,r1-a\n,L4,1,,,0.5,0.2,r1,r1-a",
            {"host_without_gpus": 1},
            "a3-highgpu-8g in r1-a",
        ),
        (",L4,1,,,0.5,0.2,r1,r1-a\n,L4,2,,,1.0,0.4,r1,r1-a", {"same_gpu": 1}, ""),
    ],
)
def test_rows_of_a_catalogue_without_a_price(row: str, reasons: dict[str, int], said: str) -> None:
    content = f"{HEADER}\ng6.xlarge,L4,1,4,16,0.8,,r2,\n{row}".encode()
    _, account = accounted(content, "vms.csv", "aws")
    assert account.reasons == reasons
    assert account.said == ([said] if said else [])


def entries(path: Path) -> int:
    """Return how many offers a document has, by its own form alone."""
    if path.suffix == ".csv":
        return sum(1 for row in csv.reader(path.read_text().splitlines()) if row) - 1
    found: Any = json.loads(path.read_bytes())
    wanted = ("PriceList", "products", "SpotPriceHistory", "Items", "skus")
    return next((len(found[key]) for key in wanted if key in found), -1)


def documents() -> list[Any]:
    """Return the whole answers that there are: our own, and recorded ones beside this checkout."""
    folders = (HERE, DATA, CASES / "05-azure-retail-meters", CASES / "19-aws-offers")
    paths = [
        path for folder in folders for path in sorted(folder.glob("*.*")) if path.suffix in (".csv", ".json")
    ]
    missing = [
        pytest.param(folder, marks=pytest.mark.skip(reason=f"no {folder.name}: not part of this checkout"))
        for folder in folders
        if not folder.is_dir()
    ]
    return [pytest.param(path, id=path.name) for path in paths] + missing


@pytest.mark.parametrize("path", documents())
def test_whole_answers_have_one_price_each_and_are_accounted_for(path: Path) -> None:
    cloud = path.name.split("_")[1] if path.suffix == ".csv" else None
    given = PriceList(path.name, path.read_bytes(), cloud)
    events = [each.event for each in records_of(given, format_of(given), NOW_MS)]
    account = given.offers.total()
    assert account.read == entries(path)
    assert all(each.usd_nano > 0 for each in events)
    on_demand = Counter(place(each) for each in events if "purchase" not in each.match)
    assert max(on_demand.values(), default=1) == 1
    for line in account.lines():
        if line.entry_class == "not_understood":
            assert line.examples, line.reason
            assert line.explained == REMEDIES[line.reason]


def place(event: PriceEvent) -> tuple[str, ...]:
    assert event.per in (Per.instance_hour, Per.gpu_hour)
    return tuple(
        event.match.get(name, "") for name in ("cloud", "instance_type", "gpu_type", "region", "zone")
    )


def test_the_command_names_what_is_not_understood(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_bytes(aws({"marketoption": "CapacityBlock", "regionCode": "eu-north-1"}))
    done = trainfare("prices", "load", str(tmp_path / "p.json"), "--dry-run")
    assert done.err.splitlines()[0] == "read 2: 1 metered, 0 free, 1 not understood"
    assert "not understood: 1 no_plain_price; first: p5.48xlarge in eu-north-1: a capacity block" in done.err
