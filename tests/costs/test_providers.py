"""A job's cloud and a bill's provider, as people spell them."""

import pytest

from streams.costs.providers import same_provider


@pytest.mark.parametrize(
    ("cloud", "provider"),
    [
        ("aws", "AWS"),
        ("aws", "Amazon Web Services"),
        ("gcp", "Google Cloud"),
        ("Azure", "Microsoft"),
        ("", "AWS"),
        ("aws", ""),
        ("lambda", "Lambda Labs"),
        ("cw", "CoreWeave"),
    ],
)
def test_may_be_the_same(cloud: str, provider: str) -> None:
    assert same_provider(cloud, provider)


@pytest.mark.parametrize(
    ("cloud", "provider"),
    [("gcp", "AWS"), ("aws", "Google Cloud"), ("lab", "Amazon Web Services"), ("azure", "CoreWeave")],
)
def test_are_two(cloud: str, provider: str) -> None:
    assert not same_provider(cloud, provider)
