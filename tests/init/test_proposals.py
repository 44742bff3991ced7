"""Prices and aliases that are proposed, and what is left without."""

from __future__ import annotations

import tomllib

import pytest

from schemas.events import PriceEvent
from streams.init.catalogue import FILE, catalogue
from streams.init.price_file import prices_csv, prices_in, rows_in
from streams.init.proposals import GivenAnswers, propose, unfit_lists, unpriced
from streams.init.surroundings import GpuKind, Surroundings
from streams.prices.findings import findings
from streams.prices.records import format_of, records_of
from streams.prices.source import PriceList
from tests.forked import ROOT

NOW_MS = 1_790_000_000_000
NOTHING = GivenAnswers({}, {}, ())


def site(*kinds: dict[str, str]) -> Surroundings:
    return Surroundings("slurm", "", tuple(GpuKind(fields, 8, 1) for fields in kinds), {}, {"slurm": {}})


def proposed(found: Surroundings, given: GivenAnswers = NOTHING) -> tuple[dict[str, str], list[PriceEvent]]:
    """Return the aliases, and the prices as a meter reads them."""
    proposal = propose(found, given, has_aliases=True)
    return dict(proposal.aliases), prices_in("prices.csv", prices_csv(proposal.rows, ()), NOW_MS)


def test_a_type_in_another_case_has_an_alias_and_a_price() -> None:
    found = site({"gpu_type": "h100"})
    aliases, prices = proposed(found)
    assert aliases == {"h100": "H100"}
    assert [(each.match, each.usd_nano) for each in prices] == [({"gpu_type": "H100"}, 6_880_000_000)]
    assert unpriced(found.kinds, aliases, {}, prices, NOW_MS) == []


@pytest.mark.parametrize("name", ["NVIDIA-H100-80GB-HBM3", "nvidia_h100_80gb", "H100-SXM"])
def test_names_of_one_product_get_its_price(name: str) -> None:
    found = site({"gpu_type": name})
    aliases, prices = proposed(found)
    assert aliases == {name: "H100"}
    assert not unpriced(found.kinds, aliases, {}, prices, NOW_MS)


def test_a_name_that_leaves_open_which_product_is_meant_gets_the_choices() -> None:
    found = site({"gpu_type": "a100"})
    aliases, prices = proposed(found)
    assert (aliases, prices) == ({}, [])
    missing = unpriced(found.kinds, aliases, {}, prices, NOW_MS)
    assert missing[0].choices == ("A100-80GB", "A100-40GB")
    assert missing[0].line == "a100,a100,USD,gpu_hour,"
    chosen, priced = proposed(found, GivenAnswers({}, {"a100": "A100-80GB"}, ()))
    assert not unpriced(found.kinds, chosen, {}, priced, NOW_MS)


def test_an_unknown_type_is_priced_by_its_line_or_by_the_answer() -> None:
    found = site({"gpu_type": "gaudi3"})
    missing = unpriced(found.kinds, {}, {}, [], NOW_MS)
    line = missing[0].line.replace("USD", "1.5")
    assert not unpriced(
        found.kinds, {}, {}, prices_in("x.csv", f"{missing[0].header}\n{line}\n", NOW_MS), NOW_MS
    )
    _, prices = proposed(found, GivenAnswers({"gaudi3": "1.5"}, {}, ()))
    assert [each.usd_nano for each in prices] == [1_500_000_000]


def test_spot_and_clouds_have_prices_of_their_own() -> None:
    found = site(
        {"gpu_type": "H100", "cloud": "aws", "region": "us-east-1"},
        {"gpu_type": "H100", "cloud": "aws", "purchase": "spot"},
        {"gpu_type": "H100", "cloud": "gcp"},
        {"gpu_type": "H100", "cloud": "azure"},
    )
    aliases, prices = proposed(found)
    by_sku = {each.sku: each for each in prices}
    assert sorted(by_sku) == ["gpu.h100", "gpu.h100.aws", "gpu.h100.aws.spot", "gpu.h100.gcp"]
    assert by_sku["gpu.h100.aws.spot"].usd_nano == 2_644_287_500
    assert by_sku["gpu.h100.gcp"].match == {"cloud": "gcp", "gpu_type": "H100"}
    assert not unpriced(found.kinds, aliases, {}, prices, NOW_MS)


def test_a_list_of_the_user_goes_before_the_catalogue() -> None:
    mine = prices_in(
        "p.csv",
        "sku,gpu_type,region,usd,per,gpus,from\n"
        "mine,h100,,16,instance_hour,8,\nmine,h100,,24,instance_hour,8,2026-10-01\nfar,H100,mars,9,gpu_hour,,\n",
        NOW_MS,
    )
    found = site({"gpu_type": "H100-SXM"})
    aliases, prices = proposed(found, GivenAnswers({}, {}, mine))
    assert aliases == {"H100-SXM": "h100"}
    assert prices == mine_without_far(mine)


def test_a_list_that_fits_no_type_is_told_with_what_it_asks_for() -> None:
    mine = prices_in(
        "p.csv",
        "sku,gpu_type,region,instance_type,usd,per,gpus,from\np5,H100,us-east-1,p5.48xlarge,55,instance_hour,8,\n",
        NOW_MS,
    )
    found = site({"gpu_type": "h100"}, {"gpu_type": "h100", "region": "us-east-1"})
    given = GivenAnswers({}, {}, mine)
    assert unfit_lists(found, given, {"h100": "H100"}, NOW_MS) == [
        (
            "no price of your lists fits H100; the nearest, p5, asks for region=us-east-1 instance_type=p5.48xlarge"
            ": if all jobs have that, --price-field region=us-east-1 --price-field instance_type=p5.48xlarge"
        ),
        (
            "no price of your lists fits H100; the nearest, p5, asks for instance_type=p5.48xlarge"
            ": if all jobs have that, --price-field instance_type=p5.48xlarge"
        ),
    ]
    fits = site({"gpu_type": "h100", "region": "us-east-1", "instance_type": "p5.48xlarge"})
    assert not unfit_lists(fits, given, {"h100": "H100"}, NOW_MS)
    assert not unfit_lists(found, given._replace(usd={"h100": "1"}), {}, NOW_MS)
    assert not unfit_lists(found, NOTHING, {}, NOW_MS)


def test_a_list_of_other_types_alone_names_them_and_no_price_field() -> None:
    """`--price-field gpu_type=...` would make every GPU one of another type."""
    mine = prices_in(
        "p.csv",
        "sku,gpu_type,usd,per,from\n" + "".join(f"s{name},{name},2,gpu_hour,\n" for name in ("A100-80GB", "L4", "T4", "A10", "A2")),
        NOW_MS,
    )  # fmt: skip
    said = unfit_lists(site({"gpu_type": "h100"}), GivenAnswers({}, {}, mine), {"h100": "H100"}, NOW_MS)
    assert said == ["no price of your lists fits H100: they have A100-80GB, L4, T4, A10 and 1 more"]


def mine_without_far(mine: list[PriceEvent]) -> list[PriceEvent]:
    return [each for each in mine if each.sku == "mine"]


def test_what_is_written_already_stays_but_for_what_is_answered_anew() -> None:
    found = site({"gpu_type": "h100"}, {"gpu_type": "l40s"})
    text = "sku,gpu_type,usd,per,from,note\ngpu.h100,H100,3.60,gpu_hour,,by hand\negress,,0.09,gb,,\n"
    known = NOTHING._replace(known_rows=rows_in("p.csv", text), known_prices=prices_in("p.csv", text, NOW_MS))
    _, prices = proposed(found, known)
    assert {each.sku: each.usd_nano for each in prices} == {
        "gpu.h100": 3_600_000_000,
        "egress": 90_000_000,
        "gpu.l40s": 1_548_400_000,
    }
    _, again = proposed(found, known._replace(usd={"h100": "4"}))
    assert {each.sku: each.usd_nano for each in again}["gpu.h100"] == 4_000_000_000


def test_two_types_of_one_short_name_have_two_skus() -> None:
    _, prices = proposed(
        site({"gpu_type": "x/y"}, {"gpu_type": "x+y"}), GivenAnswers({"x/y": "1", "x+y": "2"}, {}, ())
    )
    assert {each.sku: each.match["gpu_type"] for each in prices} == {"gpu.x-y": "x/y", "gpu.x-y-2": "x+y"}


def test_the_fields_that_a_price_asks_for_count() -> None:
    kinds = site({"gpu_type": "H100"}).kinds
    prices = prices_in("p.csv", "sku,gpu_type,region,usd,per,from\na,H100,eu,1,gpu_hour,\n", NOW_MS)
    assert unpriced(kinds, {}, {}, prices, NOW_MS)
    assert not unpriced(kinds, {}, {"region": "eu"}, prices, NOW_MS)


def test_a_source_without_aliases_gets_prices_of_its_own_names() -> None:
    found = site({"gpu_type": "NVIDIA H100 80GB HBM3"})
    proposal = propose(found, NOTHING, has_aliases=False)
    assert not proposal.aliases
    assert proposal.rows[0]["gpu_type"] == "NVIDIA H100 80GB HBM3"


def test_the_catalogue_is_a_price_list_without_warnings_and_says_where_each_price_is_from() -> None:
    given = PriceList(FILE.name, FILE.read_bytes())
    records = records_of(given, format_of(given), NOW_MS)
    assert len(records) == len(catalogue())
    jumps = [
        str(each)
        for each in findings([(each.line, each.event) for each in records], [])
        if "spot" in str(each)
    ]
    assert not jumps
    for price in catalogue():
        assert any(year in price.source for year in ("2024-26", "2025-26", "2026-08")), price
        assert any(word in price.source for word in ("Apache-2.0", "MPL-2.0", "list price")), price


def test_a_wheel_has_the_catalogue() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    assert FILE.name in tool["setuptools"]["package-data"]["*"]


def test_comments_before_the_header_keep_the_numbers_of_lines() -> None:
    text = '# a "comment, with, commas\n#\nsku,usd,per,from\na,1,gpu_hour,\nb,x,gpu_hour,\n'
    with pytest.raises(Exception, match="line 5"):
        prices_in("p.csv", text, NOW_MS)
    assert prices_in("p.csv", "# nothing yet\nsku,usd,per,from\n", NOW_MS) == []
