"""The keyword index, on a real SQLite."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import RetrievalError
from tracehold.core.scope import Scope
from tracehold.retrieval import SqliteKeywordIndex
from tracehold.retrieval.terms import terms_of

ADA = Scope(user="ada", session="1")
BOB = Scope(user="bob", session="1")

TEXTS = {
    "chinese": "我们讨论了退款和物流的问题",
    "japanese": "来週の会議は東京で行われます",
    "korean": "다음 주 회의는 서울에서 열립니다",
    "thai": "ลูกค้าขอคืนเงินสำหรับสินค้า",
    "arabic": "طَلَبَ العميل استرداد المبلغ",
    "hebrew": "הלקוח ביקש החזר כספי",
    "hindi": "ग्राहक ने धनवापसी मांगी",
    "german": "Die Bestellung über zwölf Ärmelschürzen aus Gießen",
    "russian": "Клиент попросил вернуть деньги за ёлку",
    "greek": "πελάτης ζήτησε επιστροφή χρημάτων",
    "code": "def compute_totalPrice(order_id): raise ValueError('E-1042')",
    "mail": "write to ada.lovelace+orders@example.co.uk",
    "emoji": "the launch went well 🚀 and everybody clapped 👏🏽",
}


@pytest.fixture
def index() -> Iterator[SqliteKeywordIndex]:
    made = SqliteKeywordIndex()
    yield made
    made.close()


@pytest.fixture
def library(index: SqliteKeywordIndex) -> SqliteKeywordIndex:
    index.add(list(TEXTS), list(TEXTS.values()), scope=ADA)
    return index


def found(index: SqliteKeywordIndex, query: str, **options: Any) -> list[str]:
    return [hit.id for hit in index.search(query, **options)]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("退款", "chinese"),
        ("物", "chinese"),
        ("題", None),
        ("东京", None),
        ("東京", "japanese"),
        ("会議", "japanese"),
        ("す", "japanese"),
        ("서울", "korean"),
        ("회의", "korean"),
        ("คืนเงิน", "thai"),
        ("สินค้า", "thai"),
        ("طلب", "arabic"),
        ("استرداد", "arabic"),
        ("החזר", "hebrew"),
        ("धनवापसी", "hindi"),
        ("zwölf", "german"),
        ("zwolf", "german"),
        ("zwoelf", "german"),
        ("AERMELSCHUERZEN", "german"),
        ("giessen", "german"),
        ("елку", "russian"),
        ("ΖΗΤΗΣΕ", "greek"),
        ("order_id", "code"),
        ("totalprice", "code"),
        ("price", "code"),
        ("E-1042", "code"),
        ("ada.lovelace+orders@example.co.uk", "mail"),
        ("lovelace", "mail"),
        ("🚀", "emoji"),
        ("👏", "emoji"),
    ],
)
def test_texts_of_any_script_are_found_by_their_words(
    library: SqliteKeywordIndex, query: str, first: str | None
) -> None:
    assert ([first] if first else []) == found(library, query)[:1]


def test_a_word_is_found_by_its_beginning_and_whole_words_come_first(index: SqliteKeywordIndex) -> None:
    index.add(["longer", "whole", "other"], ["refunding it", "refund it", "nothing of it"])
    assert found(index, "refund") == ["whole", "longer"]
    assert found(index, "ref") == ["whole", "longer"]


def test_an_identifier_finds_the_text_with_the_whole_of_it_first(index: SqliteKeywordIndex) -> None:
    index.add(["parts", "whole", "other"], ["42 times an order without id", "see order_id-42 please", "nothing"])
    assert found(index, "order_id-42")[0] == "whole"


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "'",
        '" OR 1=1 --',
        "NEAR(a b)",
        "terms : x",
        "places:p*",
        "a AND OR NOT",
        "* ^ - + ( ) { } :",
        "\0",
        "a\0b",
        "\ud800 \udfff",
        "",
        "   ",
        "!?.,;",
        "a" * 100_000,
        "word " * 20_000,
        "(" * 100_000,
        "日" * 100_000,
        "x@y " * 25_000,
        "e\u0301" * 50_000,
    ],
)
def test_no_query_reaches_the_syntax_of_fts5(library: SqliteKeywordIndex, query: str) -> None:
    assert isinstance(library.search(query), list)


@given(st.text(max_size=40))
def test_no_text_and_no_query_raises(text: str) -> None:
    index = SqliteKeywordIndex()
    index.add(["1"], [text])
    assert [hit.content for hit in index.search(text)] == ([text] if list(terms_of(text)) else [])
    index.close()


scopes = st.builds(
    Scope, user=st.sampled_from([None, "ada", "bob"]), session=st.sampled_from([None, "1"]), app=st.just(None)
)
words = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda word: list(terms_of(word)))


@given(st.lists(st.tuples(scopes, st.lists(words, min_size=1, max_size=5)), min_size=1, max_size=8), scopes, st.data())
def test_a_text_is_found_by_any_of_its_words_within_its_scope_and_never_outside(  # SCP-03
    messages: list[tuple[Scope, list[str]]], asked: Scope, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, len(messages) - 1))
    word = data.draw(st.sampled_from(messages[number][1]))
    with contextlib.closing(SqliteKeywordIndex()) as index:
        for place, (scope, parts) in enumerate(messages):
            index.add([str(place)], [" ".join(parts)], scope=scope)
        restrictive, exact = (
            {hit.id for hit in index.search(word, top_k=100, scope=asked, exact=exact)} for exact in (False, True)
        )
    inside = {
        str(place)
        for place, (scope, _) in enumerate(messages)
        if asked.restrictions().items() <= scope.restrictions().items()
    }
    same = {str(place) for place, (scope, _) in enumerate(messages) if scope == asked}
    assert restrictive <= inside
    assert exact <= same
    assert (str(number) in inside) == (str(number) in restrictive)
    assert (str(number) in same) == (str(number) in exact)


@pytest.mark.parametrize("exact", [True, False])
def test_better_hits_outside_the_scope_take_no_place(index: SqliteKeywordIndex, exact: bool) -> None:  # SCP-03
    index.add([str(number) for number in range(50)], ["tea tea"] * 50, scope=BOB)
    index.add(["mine"], ["tea and quite a few other words"], scope=ADA)
    assert found(index, "tea", scope=ADA, exact=exact) == ["mine"]


def test_one_id_in_two_scopes_is_two_entries(index: SqliteKeywordIndex) -> None:
    index.add(["1"], ["tea for ada"], scope=ADA)
    index.add(["1"], ["tea for bob"], scope=BOB)
    assert {("tea for ada", ADA), ("tea for bob", BOB)} == {(hit.content, hit.scope) for hit in index.search("tea")}


def test_adding_an_id_again_replaces_its_text(index: SqliteKeywordIndex) -> None:
    index.add(["1"], ["green tea"], scope=ADA)
    index.add(["1"], ["black coffee"], scope=ADA)
    assert found(index, "tea") == []
    assert found(index, "coffee") == ["1"]


def test_delete_is_restrictive_and_delete_exact_is_not(index: SqliteKeywordIndex) -> None:  # SCP-03
    index.add(["1"], ["tea"], scope=ADA)
    index.delete_exact(["1"], scope=Scope(user="ada"))
    assert found(index, "tea") == ["1"]
    index.delete(["1"], scope=Scope(user="ada"))
    assert found(index, "tea") == []


def test_metadata_comes_back_with_a_hit(index: SqliteKeywordIndex) -> None:
    metadata = {"role": "user", "n": 2**70, "nested": [{"ü": None}], "half": "\ud800"}
    index.add(["1"], ["tea"], metadatas=[metadata])
    assert metadata == index.search("tea")[0].metadata


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((["1"], []), "as many ids"),
        ((["1", "2"], ["a"]), "as many ids"),
        (("1", ["a"]), "lists of texts"),
        (([""], ["a"]), "at least one character"),
        (([1], ["a"]), "an id is a text"),
        ((["1"], [b"a"]), "content is a text"),
        ((["1"], ["a"], [{"x": object()}]), "no form"),
        ((["1"], ["a"], ["x"]), "is a dict"),
    ],
)
def test_unusable_batches_are_refused_and_nothing_is_written(  # IDX-02
    index: SqliteKeywordIndex, arguments: tuple[Any, ...], words: str
) -> None:
    ids, contents, *rest = arguments
    with pytest.raises(RetrievalError, match=words):
        index.add(ids, contents, metadatas=rest[0] if rest else None)
    assert index.entries() == {}


def test_a_batch_is_written_as_a_whole_or_not_at_all(index: SqliteKeywordIndex) -> None:
    with pytest.raises(RetrievalError, match="lone surrogate"):
        index.add(["1"], ["a"], scope=Scope(user="\ud800"))
    assert index.entries() == {}


def test_two_indexes_on_one_file_see_each_other(path: Path) -> None:
    with_words, other = SqliteKeywordIndex(path), SqliteKeywordIndex(path)
    with_words.add(["1"], ["tea"], scope=ADA)
    assert found(other, "tea") == ["1"]
    other.delete_exact(["1"], scope=ADA)
    assert found(with_words, "tea") == []
    with_words.close()
    other.close()


def test_threads_that_write_and_search_at_once_lose_nothing(path: Path) -> None:
    index = SqliteKeywordIndex(path)

    def write(thread: int) -> None:
        for number in range(20):
            index.add([f"{thread}-{number}"], [f"tea number {number}"], scope=ADA)
            index.search("tea", scope=ADA)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert len(found(index, "tea", top_k=1000)) == 80
    index.close()


def test_deleted_texts_leave_no_bytes_in_the_file_once_compacted(path: Path) -> None:
    index = SqliteKeywordIndex(path)
    index.add(["1", "2"], ["the codeword is xylophonist", "tea"], scope=ADA)
    index.delete_exact(["1"], scope=ADA)
    index.compact()
    index.close()
    assert all(b"xylophon" not in file.read_bytes() for file in path.parent.iterdir())


def test_a_closed_index_says_so(index: SqliteKeywordIndex) -> None:
    index.close()
    index.close()
    with pytest.raises(RetrievalError, match="closed"):
        index.search("tea")


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database" * 1000)
    with pytest.raises(RetrievalError, match="keywords"):
        SqliteKeywordIndex(path)


def test_a_sqlite_without_fts5_is_told_of_at_construction(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lacking(sqlite3.Connection):
        def execute(self, sql: str, *arguments: Any) -> Any:
            if "fts5" in sql:
                raise sqlite3.OperationalError("no such module: fts5")
            return super().execute(sql, *arguments)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: connect(*args, **options, factory=Lacking))
    with pytest.raises(RetrievalError, match=r"built without FTS5.*keyword_index of your own"):
        SqliteKeywordIndex()
