"""How many decimals amounts of a currency have: the minor units of ISO 4217.

Those of 2 are not listed. Source: ISO 4217, list one of current currencies and funds, as its maintenance agency SIX publishes it
(https://www.six-group.com/en/products-services/financial-information/data-standards.html).
"""

from __future__ import annotations

from typing import Final

USUAL_DECIMALS: Final = 2
_NONE: Final = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
_THREE: Final = "BHD IQD JOD KWD LYD OMR TND"
_FOUR: Final = "CLF UYW"
#: Decimals by code, of all currencies that have another number than the usual one.
OTHER_DECIMALS: Final = {
    code: decimals for decimals, codes in ((0, _NONE), (3, _THREE), (4, _FOUR)) for code in codes.split()
}


def decimals_of(currency: str) -> int:
    """How many decimals an amount of a currency (its code) has."""
    return OTHER_DECIMALS.get(currency, USUAL_DECIMALS)
