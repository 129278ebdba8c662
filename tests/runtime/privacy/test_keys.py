from __future__ import annotations

import pytest
from tracehold.core.errors import ConfigurationError
from tracehold.privacy import KeyRules
from tracehold.privacy.vocabulary import words

FLOOR = sorted(
    words(
        """
        key token secret password passwd auth authorization bearer credential credentials api_key apikey
        access_token refresh_token my_api_key_2 GOOGLEAPIKEY xsecretx OldPassword passwd_file
        user_access_token_v2 refresh_token_old PASSWORD Token
        """
    )
)
WORDED = sorted(
    words(
        """
        client_secret clientSecret x-api-key X-Api-Key X-API-Key githubToken accessToken auth_token authToken
        id_token privateKey private-key proxy-authorization Set-Cookie cookie otp pin card_pin ssn passphrase
        db_pass SMTP_PASS csrfToken http.request.header.authorization aws_secret_access_key AccountKey ssh_key
        token_value bot_token sessionid JSESSIONID jwt cvv socialSecurityNumber api_tokens encryption_keys
        APIKeys credit_card mnemonic
        """
    )
)
HARMLESS = sorted(
    words(
        """
        author authority auth_types authentication_method session_id sessionId SessionID session.id tokens
        max_tokens total_tokens prompt_tokens token_count tokenCount tokenizer stop_token next_page_token
        secretary secretariat passenger compass bypass keyboard monkey primary_key public_key sort_key key_id
        private_key_id cache_key pinned shipping spin opinion passwordless hockey value name cached_tokens
        reasoning_tokens token_type cookie_consent run_id tool
        """
    )
)


@pytest.mark.parametrize("key", FLOOR)
def test_every_documented_key_name_is_a_secret_in_any_case(key):  # TRC-03
    assert KeyRules().is_secret(key)


@pytest.mark.parametrize("key", WORDED)
def test_a_key_is_a_secret_when_its_words_name_one(key):  # DEC-09, RED-12, FR-45
    assert KeyRules().is_secret(key)


@pytest.mark.parametrize("key", HARMLESS)
def test_a_key_that_only_contains_the_letters_of_a_secret_word_is_none(key):  # TRC-04, DEC-09, FR-45
    assert not KeyRules().is_secret(key)


def test_extra_keys_match_as_substrings_in_any_case():  # TRC-07
    rules = KeyRules(["IBAN", "birth"])
    assert rules.is_secret("customer_iban_2")
    assert rules.is_secret("dateOfBirth")


def test_extra_keys_only_add_to_the_built_in_rules():  # TRC-07
    assert KeyRules(["iban"]).is_secret("password")


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_a_blank_extra_key_is_refused_and_its_place_is_named(blank):  # TRC-08
    with pytest.raises(ValueError, match=r"extra_secret_keys\[1\] is blank") as caught:
        KeyRules(["fine", blank])
    assert isinstance(caught.value, ConfigurationError)


@pytest.mark.parametrize(
    ("key", "value"),
    [("auth", "oauth2"), ("auth", "none"), ("key", "created_at"), ("key", "gen_ai.request.model"), ("pwd", "/srv/app")],
)
def test_three_common_names_stay_readable_with_values_that_are_no_secret(key, value):  # FR-45
    assert not KeyRules().holds_secret(key, value)


@pytest.mark.parametrize(
    ("key", "value"), [("auth", "abc"), ("key", "abc"), ("key", {"a": 1}), ("pwd", "abc"), ("key", 12345)]
)
def test_three_common_names_are_secret_with_any_other_value(key, value):  # TRC-03
    assert KeyRules().holds_secret(key, value)


@pytest.mark.parametrize("value", [None, True, False])
def test_a_flag_under_a_secret_key_is_no_secret(value):
    assert not KeyRules().holds_secret("password", value)


def test_verdicts_are_remembered_for_a_bounded_number_of_keys():
    rules = KeyRules()
    for number in range(10_000):
        rules.is_secret(f"field_{number}")
    assert len(rules._cache) <= 4096


def test_a_key_of_a_megabyte_is_judged_by_its_end():
    assert KeyRules().is_secret("x" * 1_000_000 + "_password")
