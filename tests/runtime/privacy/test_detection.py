from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from privacy_samples import CARD, EMAIL, HEX, IBAN, IDENTIFIERS, JWT, PASSWORD, SSN, VENDOR_KEYS, alnum, hexits
from tracehold.privacy import DEFAULT_DETECTORS, Detector, Finding, TextMasker, find_sensitive
from tracehold.privacy.randomness import is_hex_identifier


@pytest.mark.parametrize("key", VENDOR_KEYS.values(), ids=VENDOR_KEYS)
def test_the_keys_of_known_issuers_are_secrets(key, named):  # RED-04, RED-07
    masked = named(f"call it with {key} please")
    assert masked.replace("SG.", "") == "call it with [REDACTED:secret] please"


@pytest.mark.parametrize(
    ("name", "value"),
    [("email", EMAIL), ("card", CARD), ("ssn", SSN), ("jwt", JWT), ("iban", IBAN)],
)
def test_each_built_in_kind_is_named_and_the_rest_of_the_text_stays(name, value, named):  # RED-03, RED-04
    assert named(f"got {value} from it") == f"got [REDACTED:{name}] from it"


def test_a_bearer_credential_is_masked_and_the_word_stays(named):  # RED-04, TRC-05
    assert named("Bearer " + alnum(24)) == "Bearer [REDACTED:bearer]"


@pytest.mark.parametrize("separator", ["", " ", "-", "."])
def test_a_card_is_found_in_every_usual_grouping(separator, named):  # RED-04
    assert named(separator.join(re.findall("....", CARD))) == "[REDACTED:card]"


def test_two_cards_side_by_side_are_both_found(named):
    assert named("4111 1111 1111 1111 5500 0000 0000 0004") == "[REDACTED:card] [REDACTED:card]"


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",
        "order 1234567890123456",
        "1700000000000000000",
        "0.4111111111111111",
        "000-12-3456",
        "666-12-3456",
        "912-12-3456",
        "978-3-16-148410-0",
        "2026-03-01T10:00:00.123456Z",
        "DE88370400440532013000",
    ],
)
def test_digits_that_fail_their_check_stay(text):  # RED-05, RED-06
    assert find_sensitive(text) == []


@pytest.mark.parametrize("identifier", IDENTIFIERS.values(), ids=IDENTIFIERS)
def test_structural_identifiers_stay(identifier):  # DEC-10, FR-43
    assert find_sensitive(f"see {identifier} there") == []


def test_a_real_key_beside_an_identifier_goes(named):  # FR-43
    text = f"{IDENTIFIERS['git sha']} {VENDOR_KEYS['github']}"
    assert named(text) == f"{IDENTIFIERS['git sha']} [REDACTED:secret]"


@pytest.mark.parametrize("word", ["secret", "token:", "api key is", "password ="])
def test_an_identifier_with_a_word_that_names_a_secret_beside_it_goes(word):  # DEC-10
    assert find_sensitive(f"the {word} {hexits(32)}")


@pytest.mark.parametrize("length", [33, 48, 72])
def test_hexadecimal_of_another_length_goes(length):  # TRC-05, DEC-10
    digits = hexits(length)
    assert not is_hex_identifier(digits)
    assert find_sensitive(digits) == [Finding(0, length, "long_run")]


@given(st.integers(33, 120), st.integers(0, 2**32))
def test_hexadecimal_drawn_at_random_goes_whatever_its_digits_look_like(length, seed):  # TRC-05, DEC-10
    digits = "a1" + "".join(random.Random(seed).choices(HEX, k=length - 2))
    assume(not is_hex_identifier(digits))
    assert find_sensitive(digits)


@pytest.mark.parametrize(
    "text", ["e2013cb8fbd7613650c6277ab0103400a1298484822253", "mfrggzdfmztwq2lkmfrggz3fmztwq2lk7mfrg2"]
)
def test_long_stretches_of_one_kind_do_not_make_words_of_a_key(text):  # TRC-05
    assert find_sensitive(text)


@pytest.mark.parametrize("text", ["Z" * 32, "a1" * 16 + "z", alnum(32)])
def test_an_unbroken_run_of_32_characters_goes(text):  # TRC-05
    assert find_sensitive(text)


@pytest.mark.parametrize("text", ["Z" * 24, "a1" * 15 + "z"])
def test_a_shorter_run_stays(text):  # TRC-05
    assert find_sensitive(text) == []


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/Users/maria/work/x.py", "/Users/***/work/x.py"),
        ("/home/maria", "/home/***"),
        ("file:///home/maria/x", "file:///home/***/x"),
        ("C:\\Users\\maria\\x", "C:\\Users\\***\\x"),
        ("https://example.com/home/dashboard", "https://example.com/home/dashboard"),
    ],
)
def test_below_a_home_directory_only_the_account_name_is_masked(text, left, cleaner):  # TRC-06
    assert cleaner.clean(text) == left


SETTINGS = [
    f"DB_PASSWORD={PASSWORD}",
    f"export SECRET_KEY='{PASSWORD}'",
    f"password: {PASSWORD}\nport: 1",
    "password: cGE1NS1yak51aE8=\n\n2026-03-08T10:01:11Z next line",
    f'password = "{PASSWORD}"',
    f'{{"password": "{PASSWORD}"}}',
    f'{{\n  "password":\n    "{PASSWORD}"\n}}',
    f"{{'password': '{PASSWORD}'}}",
    f"<password>{PASSWORD}</password>",
    f'password: str = "{PASSWORD}"',
    f"Server=x;User ID=sa;Password={PASSWORD};Encrypt=yes;",
    f"mytool --db-password {PASSWORD} --verbose",
    f"curl -u bob:{PASSWORD} https://example.com",
    f"mysql -uroot -p{PASSWORD} app",
    f"ALTER USER app WITH PASSWORD '{PASSWORD}'",
    f"machine example.com login bob password {PASSWORD}",
    f"db.internal:5432:app:bob:{PASSWORD}",
    f"my password is {PASSWORD}, ok",
    f"User(name='x', password='{PASSWORD}')",
    "API_SECRET=%" + alnum(30),
]


@pytest.mark.parametrize("text", SETTINGS)
def test_a_password_in_a_setting_goes_however_it_is_written(text, cleaner):  # TRC-05
    assert PASSWORD not in cleaner.clean(text)
    assert "cGE1" not in cleaner.clean(text)
    assert cleaner.clean(text) != text


@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_json_inside_json_is_read_at_every_level(levels, cleaner):  # FR-35
    text = json.dumps({"user": "bob", "password": PASSWORD})
    for _ in range(levels - 1):
        text = json.dumps({"body": text})
    cleaned = cleaner.clean(text)
    assert PASSWORD not in cleaned
    assert "bob" in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "password=${DB_PASSWORD}",
        "api_key: {{ secrets.API_KEY }}",
        'key = os.environ["OPENAI_API_KEY"]',
        "password=password",
        "token=$TOKEN",
        "def login(user: str, password: str, token: str | None = None) -> Session:",
        "Password: must contain a digit",
        "the token is used to authenticate",
        "the secret to good sauce is patience",
        "api_key=<YOUR_API_KEY>",
        "password: ********",
        "password=config.password",
        "401 Unauthorized: missing Authorization header",
        "auth: none",
        "max_tokens: 4096",
        "key: value",
        'properties": {"password": {"type": "string"}}',
        "Bearer token authentication is required",
        "Basic usage: run it",
        "author: Bob",
        "session_id=sess_abc123",
        '{"key": "gen_ai.usage.input_tokens"}',
        "git@github.com:org/repo.git",
    ],
)
def test_placeholders_types_references_and_prose_stay(text):
    assert find_sensitive(text) == []


@pytest.mark.parametrize(
    "header",
    [
        "Authorization: Basic {}",
        "authorization: bearer {}",
        '"Authorization": "Token {}"',
        "Proxy-Authorization: {}",
        "X-Api-Key: {}",
        "Cookie: theme=dark; sessionid={}",
        "Set-Cookie: JSESSIONID={}; Path=/",
    ],
)
def test_credentials_in_headers_go(header, cleaner):  # DEC-09
    secret = alnum(26)
    assert secret not in cleaner.clean(header.format(secret))


def test_user_information_and_secret_parameters_go_and_host_and_path_stay(cleaner):  # FR-39
    key, signature, token = alnum(20), alnum(20), alnum(20)
    cleaned = cleaner.clean(
        f"https://user:p%40ssw0rd@host.example/x?key={key}&page=2&sig={signature}#access_token={token}"
    )
    assert cleaned == "https://***@host.example/x?key=***&page=2&sig=***#access_token=***"


@pytest.mark.parametrize("level", [1, 2, 3])
def test_percent_encoding_hides_nothing_however_often_it_is_applied(level, cleaner):  # FR-39
    token = alnum(20)
    text = f"https://user:p@ssw0rd9@host.example/x?access_token={token}"
    for _ in range(level):
        text = quote(text, safe="")
    cleaned = cleaner.clean(f"Referer: {text}")
    assert token not in cleaned
    assert "ssw0rd9" not in cleaned
    assert "host.example" in cleaned


@pytest.mark.parametrize(
    "url", ["postgres://app:{}@db/prod", "redis://:{}@db:6379/0", "mongodb+srv://app:{}@c0.example.net/x"]
)
def test_the_password_of_a_database_url_goes_and_its_host_stays(url, cleaner):  # FR-39
    cleaned = cleaner.clean(url.format(PASSWORD))
    assert PASSWORD not in cleaned
    assert cleaned.endswith(url.rpartition("@")[2])


def _pem(newline: str, *, end: bool = True, lines: int = 20) -> tuple[str, list[str]]:
    body = [alnum(60) + "+/Aa" for _ in range(lines)]
    begin = "-----BEGIN RSA " + "PRIVATE KEY-----"
    text = newline.join([begin, *body, begin.replace("BEGIN", "END")] if end else [begin, *body])
    return text, body


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\\\\n", "\n    "])
@pytest.mark.parametrize("end", [True, False])
def test_a_private_key_goes_whole_or_cut_with_any_line_ending(newline, end, cleaner):  # FR-41
    text, body = _pem(newline, end=end)
    cleaned = cleaner.clean(f"before {text}")
    assert cleaned.startswith("before ***")
    assert not any(line[10:22] in cleaned for line in body)


def test_the_text_after_a_complete_private_key_stays(cleaner):  # FR-41
    text, _ = _pem("\n")
    assert cleaner.clean(f"{text}\nafter it") == "***\nafter it"


def test_the_body_of_a_key_without_its_frame_goes(cleaner):  # FR-41
    body = [alnum(60) + "+/Aa" for _ in range(6)]
    cleaned = cleaner.clean("\n".join(body))
    assert not any(line[10:22] in cleaned for line in body)


def test_a_certificate_and_a_public_key_stay():
    body = "\n".join(alnum(64) for _ in range(8))
    certificate = f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----"
    public = "ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5AAAAI" + alnum(43)
    assert find_sensitive(f"{certificate}\n{public}") == []


def test_the_base64_body_of_an_attachment_stays():  # RED-20
    assert find_sensitive("data:image/png;base64,iVBORw0KGgo" + alnum(64) + "+/" + alnum(200)) == []


@pytest.mark.parametrize(
    "disguise",
    [
        lambda text: text[:8] + "\u200b" + text[8:],
        lambda text: text[:9] + "\u00ad" + text[9:],
        lambda text: text.encode().hex(),
    ],
    ids=["zero-width space", "soft hyphen", "hexadecimal"],
)
def test_a_disguised_key_goes(disguise, cleaner):
    key = VENDOR_KEYS["openai"]
    cleaned = cleaner.clean(f"value {disguise(key)} here")
    assert cleaned == "value *** here"


@pytest.mark.parametrize(
    "text",
    [
        "maria.lopez\uff20example.com",
        "maria.lopez%40example.com",
        "maria.lopez\\u0040example.com",
        "maria.lopez&#64;example.com",
        "maria.lopez [at] example [dot] com",
        "jörg.müller@bücher.example",
    ],
)
def test_a_disguised_address_goes(text, named):
    assert named(f"to {text} now") == "to [REDACTED:email] now"


def test_a_card_in_the_digits_of_another_script_goes(named):
    assert named("".join(chr(0xFF10 + int(digit)) for digit in CARD)) == "[REDACTED:card]"


def test_findings_are_sorted_and_do_not_overlap():
    text = f"Authorization: Bearer {JWT} password={EMAIL} {CARD} https://u:{PASSWORD}@{EMAIL}"
    findings = find_sensitive(text)
    assert findings == sorted(findings, key=lambda finding: finding.start)
    assert all(first.end <= second.start for first, second in pairwise(findings))


def test_own_detectors_replace_the_built_in_ones():  # RED-08
    own = (Detector(name="ticket", pattern=re.compile(r"T-\d+")),)
    assert find_sensitive(f"T-12 {EMAIL}", own) == [Finding(0, 4, "ticket")]


def test_a_check_that_says_no_leaves_the_match():  # RED-09
    own = (Detector(name="even", pattern=re.compile(r"\d+"), check=lambda match: int(match[0]) % 2 == 0),)
    assert [finding.start for finding in find_sensitive("11 12", own)] == [3]


def test_extra_patterns_add_to_the_detectors():  # TRC-07
    masker = TextMasker(mask=lambda name: f"<{name}>", extra_patterns=[r"T-\d+", re.compile("zebra")])
    assert masker(f"T-12 zebra {EMAIL}") == "<custom> <custom> <email>"


def test_an_extra_pattern_that_is_no_expression_is_refused():
    with pytest.raises(re.error):
        TextMasker(mask=lambda _: "", extra_patterns=["("])


def test_a_text_with_nothing_to_hide_is_returned_as_the_same_object(named):  # RED-19
    text = "nothing to see " * 20
    assert named(text) is text


def test_no_text_with_a_secret_is_remembered(named):
    named(f"mail {EMAIL}")
    named("mail nobody")
    assert named.known_clean == {"mail nobody"}


def test_the_memory_of_clean_texts_is_bounded(named):
    for number in range(20_000):
        named(f"text {number}")
    assert len(named.known_clean) <= 8192


def test_the_documented_names_are_among_the_detectors():  # RED-04
    assert {"email", "card", "ssn", "secret", "jwt", "bearer"} <= {detector.name for detector in DEFAULT_DETECTORS}
