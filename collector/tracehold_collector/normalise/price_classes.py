"""What a model call's price depends on besides its token columns: audio tokens and the service tier.

They stand among the allow-listed attributes of an event, so that it can be priced again later by what it said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tracehold_collector.normalise.context import NormaliseContext
from tracehold_collector.normalise.usage import tokens

INPUT_AUDIO: Final = "input_audio_tokens"
OUTPUT_AUDIO: Final = "output_audio_tokens"
CACHED_AUDIO: Final = "cached_audio_tokens"
SERVICE_TIER: Final = "service_tier"

_COUNTS: Final = (INPUT_AUDIO, OUTPUT_AUDIO, CACHED_AUDIO)
PRICE_CLASSES: Final = frozenset({*_COUNTS, SERVICE_TIER})
"""Fields, and attributes of an event, by these names."""


def price_classes(fields: Mapping[str, Any], context: NormaliseContext) -> dict[str, Any]:
    """Return the attributes to keep: counts that are not zero, and the tier in lower case.

    Args:
        fields: as `classify.fields_of` gives them, raw.
        context: by what rules names are read.
    """
    found: dict[str, Any] = {}
    for name in _COUNTS:
        count = tokens(fields.get(name))
        if count:
            found[name] = count
    tier = context.name(fields.get(SERVICE_TIER))
    if tier:
        found[SERVICE_TIER] = tier.lower()
    return found
