"""Which way bytes went, by the places of both ends."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from streams.collect.flow_logs.flow import FlowEnd, Place
from streams.collect.flow_logs.networks import Networks
from streams.collect.flow_logs.options import Network

OWN = Place("us-east-1", "use1-az1")
NETWORKS = Networks(
    [
        Network(cidr="10.0.0.0/8", region="us-east-1"),
        Network(cidr="10.0.1.0/24", region="us-east-1", zone="use1-az1"),
        Network(cidr="10.0.2.0/24", region="us-east-1", zone="use1-az2"),
        Network(cidr="10.9.0.0/16", region="eu-west-1", zone="euw1-az1"),
        Network(cidr="52.94.0.0/16", region="us-east-1"),
        Network(cidr="203.0.113.0/24", path="unclassified"),
        Network(cidr="2600:1f18::/36", region="us-east-1", zone="use1-az1"),
    ]
)


@pytest.mark.parametrize(
    ("address", "said", "way"),
    [
        ("10.0.1.9", "", "same_zone"),
        ("10.0.2.9", "", "cross_zone"),
        ("10.9.0.1", "", "cross_region"),
        ("10.9.0.1", "internet", "cross_region"),
        ("10.5.0.1", "", "unclassified"),  # the region is known, the zone is not
        ("10.5.0.1", "same_zone", "same_zone"),
        ("52.94.1.1", "", "unclassified"),  # a public address of one's own region
        ("203.0.113.7", "internet", "unclassified"),  # as it was said to be always
        ("2600:1f18::1", "", "same_zone"),
        ("2001:4860:4860::8888", "", "internet"),
        ("8.8.8.8", "", "internet"),
        ("8.8.8.8", "unclassified", "unclassified"),
        ("192.168.1.1", "", "unclassified"),
        ("100.64.0.1", "", "unclassified"),
        ("239.1.2.3", "", "unclassified"),
        ("nowhere", "", "unclassified"),
        ("", "", "unclassified"),
    ],
)
def test_the_way_to_an_address(address: str, said: str, way: str) -> None:
    for _ in range(2):  # the second time from memory
        assert NETWORKS.way(OWN, FlowEnd((address,), address), said) == way


def test_what_the_log_knows_of_an_end_comes_first() -> None:
    other = FlowEnd(("vm",), "10.0.1.9", Place("us-east-1", "use1-az3"))
    assert NETWORKS.way(OWN, other, "") == "cross_zone"
    assert NETWORKS.way(Place(), other, "") == "unclassified"
    assert NETWORKS.way(OWN, FlowEnd((), "8.8.8.8", is_cloud_service=True), "") == "unclassified"


@pytest.mark.parametrize("cidr", ["10.0.1.0/8", "x", "10.0.0.0/33", "::/129", ""])
def test_what_is_no_network_is_refused(cidr: str) -> None:
    with pytest.raises(ValidationError, match=r"is no network, expected e\.g"):
        Network(cidr=cidr)


def test_one_address_is_a_network() -> None:
    assert Network(cidr="10.0.0.7").cidr == "10.0.0.7/32"
