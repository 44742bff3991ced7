"""Says that an answer of an API is one page of several, since nobody would notice that the others are missing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MORE_PAGES: Final = "more_pages"
#: What names the next page, where there is one, by the APIs of AWS, Google and Azure.
_NEXT: Final = ("NextToken", "nextToken", "nextPageToken", "NextPageLink", "nextLink", "@odata.nextLink")


def next_page(document: Mapping[str, object]) -> str:
    """The field that names the next page; empty where this one is the last."""
    return next((name for name in _NEXT if document.get(name)), "")
