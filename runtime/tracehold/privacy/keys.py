"""Judging whether the name of a field says that its value is a secret.

Rules: TRC-03, TRC-04, TRC-07, TRC-08, RED-12, DEC-09.

A name is split into words (`githubToken`, `X-API-Key`, `db_password`) and the words decide, so that `secretary`,
`author` and `max_tokens` stay readable (FR-45) while the documented substrings of TRC-03 remain the floor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Final

from tracehold.core.errors import ConfigurationError
from tracehold.privacy.vocabulary import words

_CACHE_MAX: Final = 4096
_KEY_MAX: Final = 256
"""Longer keys are not names that a programmer wrote; only their ends are judged, so that cost stays bounded."""

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PLURAL_ACRONYM: Final = re.compile(r"(?<=[A-Z]{2})s(?![a-z])")
_PUNCTUATION: Final = re.compile(r"[^a-z0-9]+")

# TRC-03: "any name containing ...". `secret` is judged per word, below, because of `secretary` (DEC-09).
_CONTAINS: Final = re.compile(
    r"api[ _.\-]?key|passw(?:or)?d(?!less)|passphrase|access[ _.\-]?token|refresh[ _.\-]?token"
    r"|private[ _.\-]?key(?![ _.\-]?id)|client[ _.\-]?secret|secret[ _.\-]?key|secret[ _.\-]?access"
)
_NOT_A_SECRET: Final = re.compile(r"secret(?:ar|ion|ive|ly|or|e[ds]?$|ing)")

_EXACT: Final = words(
    "key token secret password passwd auth authorization bearer credential credentials apikey accesstoken"
    " refreshtoken idtoken authtoken proxyauthorization cookie cookies setcookie privatekey otp totp pin passphrase"
    " passcode pwd pass ssn cvv cvc cvc2 cvv2 jwt sessionid jsessionid phpsessid aspnetsessionid connectsid sessid"
    " socialsecuritynumber socialsecurity cardnumber creditcard creditcardnumber ccnumber debitcardnumber"
    " bankaccountnumber passportnumber passportno mnemonic seedphrase recoveryphrase recoverycode recoverycodes"
    " backupcodes securitycode securityanswer mfacode otpcode twofactorcode onetimepassword onetimecode"
    " verificationcode accountkey sharedaccesskey sharedaccesssignature sastoken"
)
_LAST_WORD: Final = words(
    "token password passwd passphrase passcode secret secrets credential credentials cookie cookies authorization"
    " bearer jwt otp totp cvv cvc ssn pwd apikey authtoken passwords"
)
# What may follow the word that names the secret without changing what the field holds.
_TAIL: Final = words("value raw plain plaintext header hash b64 base64 hex encoded string text str env var")

_TOKEN_BUT: Final = words(
    "stop eos bos pad unk sep cls mask end start begin special next page continuation sync cancel cancellation first"
    " last num number prev previous max min total per image cursor pagination prompt completion input output cached"
    " cache reasoning audio text count think thinking eot eom bpe sub word boundary separator oov decoder encoder"
)
_TOKENS_SECRET: Final = words("access refresh auth api bearer session oauth secret csrf id")
_KEY_AFTER: Final = words(
    "api private secret access encryption decryption signing account ssh master auth subscription shared storage"
    " service deploy hmac aes rsa pgp gpg app webhook functions symmetric wallet admin openai anthropic azure"
    " google gemini cohere mistral groq stripe sendgrid twilio datadog sentry jwt cipher ingest license write"
    " consumer client bearer session"
)
_PASS_AFTER: Final = words(
    "db smtp user admin root mysql pg ftp sftp redis mail email login database postgres proxy http my new old imap"
    " ldap rabbitmq mongo auth mq amqp sql become sudo ssh wifi"
)
_PIN_AFTER: Final = words("card user debit credit security sim atm access account my old new login")
_AUTH_AFTER: Final = words("x basic proxy http registry docker git npm")

_AUTH_SCHEMES: Final = words(
    "none basic bearer digest negotiate ntlm kerberos oauth oauth1 oauth2 oidc openid saml mtls tls jwt hmac apikey"
    " api_key api-key ldap sso iam aws sigv4 session cookie anonymous public private required optional enabled"
    " disabled user service_account password token"
)
_FIELD_WORDS: Final = words(
    "id ids name names title type kind status state date time timestamp created updated modified deleted started"
    " finished ended at by on of in first last full customer user order orders price amount total count number size"
    " score rank index position priority category label country city region email phone address description"
    " version level year month day hour duration latency cost currency quantity rating popularity relevance"
)
_PATH_START: Final = re.compile(r"(?:/|~|\.{1,2}/|[A-Za-z]:[\\/])")


_DOTTED: Final = re.compile(r"[a-z][a-z_]*(?:\.(?:[a-z][a-z_]*|[0-9]{1,3}))+")
_SEPARATORS: Final = re.compile(r"[_.\-]")
_FIELD_NAME_MAX: Final = 96


class KeyVerdict(IntEnum):
    """What a key name says about its value. The weak ones depend on the value too."""

    PLAIN = 0
    SECRET = 1
    WEAK_KEY = 2
    WEAK_AUTH = 3
    WEAK_PWD = 4


class KeyRules:
    """Judges key names; verdicts are remembered, because keys repeat (at most 4,096 of them).

    Args:
        extra_substrings: case-insensitive substrings that make a key name secret, added to the built-in rules
            (TRC-07).

    Raises:
        ConfigurationError: (a `ValueError`) an entry is blank, which would make every key a secret (TRC-08).
    """

    __slots__ = ("_cache", "_extra")

    def __init__(self, extra_substrings: Iterable[str] = ()) -> None:
        extra = (extra_substrings,) if isinstance(extra_substrings, str) else tuple(extra_substrings)
        for position, entry in enumerate(extra):
            if not entry.strip():
                raise ConfigurationError(
                    f"extra_secret_keys[{position}] is blank, which would mask every value; remove it or name a key"
                )
        self._extra = tuple(entry.lower() for entry in extra)
        self._cache: dict[str, KeyVerdict] = {}

    def is_secret(self, key: str) -> bool:
        """Return whether `key` names a secret, whatever its value."""
        return self.verdict(key) is not KeyVerdict.PLAIN

    def holds_secret(self, key: str, value: object) -> bool:
        """Return whether `value` under `key` must be masked.

        Three names are used for harmless things as well, and a closed list of values tells them apart: `key` with
        the name of a field, `auth` with the name of a scheme, `pwd` with a path. `None` and booleans tell
        whether something is set, and stay.
        """
        verdict = self.verdict(key)
        if verdict is KeyVerdict.PLAIN or value is None or value is True or value is False:
            return False
        if verdict is KeyVerdict.SECRET or not isinstance(value, str):
            return True
        return not _harmless(verdict, value)

    def verdict(self, key: str) -> KeyVerdict:
        """Return what `key` says about its value."""
        found = self._cache.get(key)
        if found is None:
            found = self._judge(key)
            if len(key) <= _KEY_MAX:
                if len(self._cache) >= _CACHE_MAX:
                    self._cache.clear()
                self._cache[key] = found
        return found

    def _judge(self, key: str) -> KeyVerdict:
        lower = key.lower()
        if any(entry in lower for entry in self._extra):
            return KeyVerdict.SECRET
        if len(key) > _KEY_MAX:
            key = key[-_KEY_MAX:]
            lower = key.lower()
        return judge_name(key, lower)


def judge_name(key: str, lower: str) -> KeyVerdict:
    """Return the built-in verdict on a key name; `lower` is the key in lower case."""
    compact = _PUNCTUATION.sub("", lower)
    if compact in _EXACT and lower not in {"session_id", "session-id", "session.id", "session id"}:
        return _exact_verdict(key, compact)
    if _CONTAINS.search(lower):
        return KeyVerdict.SECRET
    words = [word.lower() for word in _WORD.findall(_PLURAL_ACRONYM.sub("", key))]
    if any("secret" in word and not _NOT_A_SECRET.search(word) for word in words):
        return KeyVerdict.SECRET
    while len(words) > 1 and (words[-1] in _TAIL or words[-1].isdigit()):
        words.pop()
    return _judge_words(words)


def _exact_verdict(key: str, compact: str) -> KeyVerdict:
    if compact == "sessionid" and key.lower() != key and key.upper() != key and key != "Sessionid":
        return KeyVerdict.PLAIN  # sessionId, SessionID: two words, an identifier (DEC-09)
    weak = {"key": KeyVerdict.WEAK_KEY, "auth": KeyVerdict.WEAK_AUTH, "pwd": KeyVerdict.WEAK_PWD}
    return weak.get(compact, KeyVerdict.SECRET)


def _judge_words(words: list[str]) -> KeyVerdict:
    if not words:
        return KeyVerdict.PLAIN
    last = words[-1]
    before = words[-2] if len(words) > 1 else ""
    if last.endswith("token"):
        prefix = last.removesuffix("token") or before
        return KeyVerdict.PLAIN if prefix in _TOKEN_BUT else KeyVerdict.SECRET
    secret = (
        (last == "tokens" and before in _TOKENS_SECRET)
        or last in _LAST_WORD
        or (last in {"key", "keys"} and before in _KEY_AFTER)
        or (last == "pass" and before in _PASS_AFTER)
        or (last == "pin" and before in _PIN_AFTER)
        or (last in {"number", "no", "num"} and before in {"card", "passport", "ssn", "security"})
        or (last == "number" and words[-3:-1] == ["bank", "account"])
        or (last in {"code", "codes"} and before in {"otp", "mfa", "recovery", "backup", "2fa"})
        or last in {"sessionid", "jsessionid", "phpsessid", "mnemonic"}
    )
    if secret:
        return KeyVerdict.WEAK_PWD if words == ["pwd"] else KeyVerdict.SECRET
    if last == "auth" and before in _AUTH_AFTER:
        return KeyVerdict.WEAK_AUTH
    return KeyVerdict.PLAIN


def _harmless(verdict: KeyVerdict, value: str) -> bool:
    if verdict is KeyVerdict.WEAK_AUTH:
        return value.lower() in _AUTH_SCHEMES
    if verdict is KeyVerdict.WEAK_PWD:
        return _PATH_START.match(value) is not None
    if len(value) > _FIELD_NAME_MAX:
        return False
    return _DOTTED.fullmatch(value) is not None or all(
        word in _FIELD_WORDS for word in _SEPARATORS.split(value.lower())
    )
