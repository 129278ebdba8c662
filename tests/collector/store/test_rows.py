"""Records encoded as rows come back as they were, here and from another process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.records import make_record
from tracehold_collector.core.record import Record
from tracehold_collector.store.rows import Rows, encode, encode_apart

texts = st.text(st.characters(codec="utf-8"), max_size=20)
contents = st.none() | st.dictionaries(texts, texts | st.integers(-(2**53), 2**53) | st.none(), min_size=1, max_size=4)
many = st.lists(
    st.builds(
        lambda number, run, name, tokens, content, tenant: make_record(
            number, run_id=f"run-{run}", name=name, input_tokens=tokens, content=content, tenant=tenant
        ),
        st.integers(0, 2**31),
        st.integers(0, 3),
        st.none() | texts,
        st.none() | st.integers(0, 10**12),
        contents,
        st.sampled_from(["default", "other"]),
    ),
    max_size=12,
)


@given(many)
def test_records_come_back_as_they_were(records: list[Record]) -> None:
    rows = encode(records)
    assert list(rows) == records
    assert list(Rows.unpack(rows.pack())) == records
    assert rows.ids == b"".join(record.event_id for record in records)


@given(many, st.sets(st.integers(0, 11)))
def test_a_record_that_no_column_holds_is_left_out_alone(records: list[Record], odd: set[int]) -> None:
    unfit: Any = "not a number"
    for place in odd:
        if place < len(records):
            records[place].seq = unfit
    fit = [record for record in records if record.seq != unfit]
    rows, left_out = encode_apart(records)
    assert list(rows) == fit
    assert left_out == len(records) - len(fit)


def test_a_text_that_is_no_unicode_is_left_out_alone(record: Callable[..., Record]) -> None:
    rows, left_out = encode_apart([record(1, name="\ud800"), record(2)])
    assert [each.event_id[-1] for each in rows] == [2]
    assert left_out == 1
