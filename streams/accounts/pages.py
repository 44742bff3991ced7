"""Tells of an answer of an API that it is one page of several: of the others nobody would be told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MORE_PAGES: Final = "more_pages"
#: What names the next page, where there is one, by the APIs of AWS, Google and Azure.
_NEXT: Final = ("NextToken", "nextToken", "nextPageToken", "NextPageLink", "nextLink", "@odata.nextLink")


def next_page(document: Mapping[str, object]) -> str:
    """The field that names the next page; empty where this one is the last."""
    return next((name for name in _NEXT if document.get(name)), "")
