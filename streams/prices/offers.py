"""What became of each offer of a price list: taken as a price, passed over by a rule, or not understood.

An offer is what the list has as one entry: a product, a meter, a SKU, a row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from streams.accounts.account import Account
from streams.accounts.causes import FREE_RULES

_SHOWN: Final = 80


class SourceRow(NamedTuple):
    """One price as an adapter read it: fields of a record of `prices`, not yet checked."""

    line: int
    record: dict[str, object]


class TakenOffer(NamedTuple):
    """An offer that is read as prices."""

    offer: str  #: its id in the list; offers of one id are revisions of each other
    place: str  #: what it is for, where, and how it is bought
    rows: list[SourceRow]


def place_of(instance_type: str, where: str, purchase: str = "") -> str:
    """The words for what an offer is for."""
    return f"{purchase and f'{purchase} '}{instance_type[:_SHOWN]} in {where[:_SHOWN]}"


class OfferAccount:
    """The offers of one list. Rules have to do with places only at its end: `total` is to be asked then."""

    def __init__(self) -> None:
        self._said = Account()
        self._priced: set[str] = set()
        self._passed: Counter[tuple[str, str]] = Counter()

    def taken(self, count: int = 1, place: str = "") -> None:
        """Count offers that are read as prices, of a place if that is of GPUs."""
        self._said.metered(count)
        self._priced.add(place)

    def passed(self, rule: str, place: str = "") -> None:
        """Count an offer that a rule of `FREE_RULES` passes over; `place`, of one with GPUs, needs another price then."""
        if place:
            self._passed[rule, place] += 1
        else:
            self._said.free(rule)

    def missed(self, reason: str, example: str) -> None:
        """Count an offer that is not understood, for a reason of `REMEDIES`."""
        self._said.not_understood(reason, example)

    def one_price_each(self, offers: Iterable[TakenOffer]) -> Iterator[SourceRow]:
        """Count offers as taken and yield their rows; where two give one SKU different prices, neither is taken."""
        found = list(offers)
        asked: dict[object, dict[str, set[object]]] = {}
        for offer in found:
            for row in offer.rows:
                by_offer = asked.setdefault(row.record["sku"], {})
                by_offer.setdefault(offer.offer, set()).add(row.record["usd"])
        prices = {sku: set().union(*of_sku.values()) for sku, of_sku in asked.items() if len(of_sku) > 1}
        unclear = {sku: sorted(map(str, usd)) for sku, usd in prices.items() if len(usd) > 1}
        for offer in found:
            two = next((row.record["sku"] for row in offer.rows if row.record["sku"] in unclear), None)
            if two is None:
                self.taken(place=offer.place)
            else:
                self.missed("two_prices", f"{two}: ${' and $'.join(unclear[two][:3])}")
            yield from (row for row in offer.rows if row.record["sku"] not in unclear)

    def total(self) -> Account:
        """The sums: a place with GPUs that was passed over, and has no price, is not understood."""
        account = Account()
        account.add(self._said)
        for (rule, place), count in sorted(self._passed.items()):
            if place in self._priced:
                account.free(rule, count)
            else:
                account.not_understood("no_plain_price", f"{place}: {FREE_RULES[rule]}", count)
        return account
