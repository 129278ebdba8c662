"""Content codings (FR-13)."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import replace

import pytest
import zstandard
from tracehold_collector.core.errors import BadBodyError, TooLargeError, UnsupportedCodingError
from tracehold_collector.core.limits import DEFAULT_LIMITS
from tracehold_collector.decode.compression import decompress

BODY = b'{"resourceSpans": []}' * 50


@pytest.mark.parametrize("coding", [None, "", "identity", " Identity "])
def test_no_coding_gives_the_body_itself(coding: str | None) -> None:
    assert decompress(BODY, coding, DEFAULT_LIMITS) == BODY


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP"])
def test_gzip_under_either_name_gives_the_same_body(coding: str) -> None:
    assert decompress(gzip.compress(BODY), coding, DEFAULT_LIMITS) == BODY


def test_a_body_of_several_gzip_members_is_read_to_its_end() -> None:
    assert decompress(gzip.compress(BODY) + gzip.compress(BODY), "gzip", DEFAULT_LIMITS) == BODY + BODY


def test_an_empty_body_stays_empty_whatever_the_header_says() -> None:
    assert decompress(b"", "gzip", DEFAULT_LIMITS) == b""


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize("packed", [zlib.compress(BODY), raw_deflate(BODY)])
def test_deflate_is_read_in_zlibs_form_and_bare(packed: bytes) -> None:
    assert decompress(packed, "deflate", DEFAULT_LIMITS) == BODY


@pytest.mark.parametrize("coding", ["zstd", " ZSTD"])
def test_zstd_gives_the_same_body(coding: str) -> None:
    assert decompress(zstandard.compress(BODY), coding, DEFAULT_LIMITS) == BODY
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(BODY)
    assert decompress(streamed + streamed, coding, DEFAULT_LIMITS) == BODY + BODY


@pytest.mark.parametrize("coding", ["deflate", "zstd"])
@pytest.mark.parametrize("cut", [-1, -4, 1])
def test_deflate_and_zstd_that_end_too_early_are_refused(coding: str, cut: int) -> None:
    packed = zlib.compress(BODY) if coding == "deflate" else zstandard.compress(BODY)
    with pytest.raises(BadBodyError, match=r"ends too early|is broken"):
        decompress(packed[:cut], coding, DEFAULT_LIMITS)


@pytest.mark.parametrize("coding", ["deflate", "zstd"])
def test_what_is_no_such_body_or_has_something_behind_it_is_refused(coding: str) -> None:
    packed = zlib.compress(BODY) if coding == "deflate" else zstandard.compress(BODY)
    for body in (BODY, packed + b"junk", b"\xff" * 40):
        with pytest.raises(BadBodyError, match=r"ends too early|is broken|ends before"):
            decompress(body, coding, DEFAULT_LIMITS)


@pytest.mark.parametrize("coding", ["deflate", "zstd"])
def test_bombs_of_the_other_codings_stop_at_the_limit_too(coding: str) -> None:
    limits = replace(DEFAULT_LIMITS, max_decompressed_bytes=100_000)
    bomb = zlib.compress(b"\0" * 50_000_000) if coding == "deflate" else zstandard.compress(b"\0" * 50_000_000)
    with pytest.raises(TooLargeError, match="more than 100000 bytes"):
        decompress(bomb, coding, limits)


def test_zstd_that_asks_for_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    wide = packer.compress(BODY) + packer.flush()
    with pytest.raises(BadBodyError, match="zstd body is broken"):
        decompress(wide, "zstd", DEFAULT_LIMITS)


@pytest.mark.parametrize("coding", ["br", "compress", "gzip, gzip"])
def test_another_coding_is_refused_naming_what_is_read(coding: str) -> None:
    with pytest.raises(UnsupportedCodingError, match=r"is not read here; send identity .*, gzip, deflate or zstd"):
        decompress(zlib.compress(BODY), coding, DEFAULT_LIMITS)


def test_gzip_or_zstd_without_its_header_is_refused_saying_so() -> None:
    with pytest.raises(BadBodyError, match="no Content-Encoding: gzip header"):
        decompress(gzip.compress(BODY), None, DEFAULT_LIMITS)
    with pytest.raises(BadBodyError, match="no Content-Encoding: zstd header"):
        decompress(zstandard.compress(BODY), None, DEFAULT_LIMITS)


def test_the_header_without_gzip_is_refused_saying_so() -> None:
    with pytest.raises(BadBodyError, match="says gzip, but the body is not gzip"):
        decompress(BODY, "gzip", DEFAULT_LIMITS)


@pytest.mark.parametrize("cut", [-1, -8, -20, 12])
def test_gzip_that_ends_too_early_is_refused(cut: int) -> None:
    with pytest.raises(BadBodyError, match=r"ends too early|is broken"):
        decompress(gzip.compress(BODY)[:cut], "gzip", DEFAULT_LIMITS)


@pytest.mark.parametrize("tail", [b"junk", b"\x1f\x8bjunk-that-is-no-member"])
def test_gzip_with_something_behind_it_is_refused(tail: bytes) -> None:
    with pytest.raises(BadBodyError, match=r"is broken|ends too early"):
        decompress(gzip.compress(BODY) + tail, "gzip", DEFAULT_LIMITS)


def test_a_damaged_checksum_is_refused() -> None:
    body = bytearray(gzip.compress(BODY))
    body[-6] ^= 0xFF
    with pytest.raises(BadBodyError, match="is broken"):
        decompress(bytes(body), "gzip", DEFAULT_LIMITS)


def test_a_decompression_bomb_stops_at_the_limit() -> None:
    limits = replace(DEFAULT_LIMITS, max_decompressed_bytes=100_000)
    bomb = gzip.compress(b"\0" * 50_000_000)
    with pytest.raises(TooLargeError, match="more than 100000 bytes, which max_decompressed_bytes allows"):
        decompress(bomb, "gzip", limits)


def test_a_body_of_exactly_the_limit_passes() -> None:
    limits = replace(DEFAULT_LIMITS, max_decompressed_bytes=len(BODY))
    assert decompress(gzip.compress(BODY), "gzip", limits) == BODY


def test_a_body_over_the_limit_is_refused_before_anything_else() -> None:
    with pytest.raises(TooLargeError, match="max_body_bytes allows 10"):
        decompress(b"x" * 11, None, replace(DEFAULT_LIMITS, max_body_bytes=10))
