"""What a model call costs: the user's own price files first, then the bundled snapshot of the providers' lists."""

from tracehold_collector.pricing.apply import price_records as price_records
from tracehold_collector.pricing.book import PriceBook as PriceBook
from tracehold_collector.pricing.user_file import load_prices as load_prices
