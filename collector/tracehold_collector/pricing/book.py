"""Every price list there is, in the order they are asked."""

from __future__ import annotations

from collections.abc import Sequence

from tracehold_collector.pricing.call import Call, Price, PriceList


class PriceBook:
    """Asks the user's files first, then the bundled snapshot.

    Args:
        files: the user's own lists, the first one first.
    """

    def __init__(self, files: Sequence[PriceList] = ()) -> None:
        # The package and its lists take 0.4 s to load: not in every command of `tracehold`.
        from tracehold_collector.pricing.bundled import BundledPrices  # noqa: PLC0415 - as said

        self._lists: tuple[PriceList, ...] = (*files, BundledPrices())

    @property
    def sources(self) -> tuple[str, ...]:
        """Names and versions of the lists."""
        return tuple(one.source for one in self._lists)

    def price(self, call: Call) -> Price | None:
        """Return what the call costs by the first list that knows its model, or `None`."""
        for one in self._lists:
            usd = one.cost(call)
            if usd is not None:
                return Price(usd, one.source)
        return None
