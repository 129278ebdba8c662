"""Made-up secrets, put together at run time, so that no scanner takes this file for a leak."""

from __future__ import annotations

import random
import string
import uuid

_SEED = 20260801
ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def chars(alphabet: str, count: int) -> str:
    """Drawn at random, and the same in whatever order the tests run."""
    return "".join(random.Random(f"{_SEED} {alphabet} {count}").choices(alphabet, k=count))


def alnum(count: int) -> str:
    """Letters and digits, at least one of each kind."""
    return "a1B" + chars(ALNUM, count - 3)


def hexits(count: int) -> str:
    return "a1" + chars(HEX, count - 2)


PASSWORD = "hunter2" + "Xy9"
VENDOR_KEYS = {
    "openai": "sk-" + "proj-" + alnum(40),
    "anthropic": "sk-" + "ant-api03-" + alnum(80),
    "github": "gh" + "p_" + alnum(36),
    "github_fine": "github" + "_pat_" + alnum(22) + "_" + alnum(50),
    "gitlab": "gl" + "pat-" + alnum(20),
    "slack": "xo" + "xb-123456789012-" + alnum(24),
    "aws": "AK" + "IA" + "QWERTYUIOP234567",
    "google": "AI" + "za" + alnum(35),
    "stripe": "sk" + "_live_" + alnum(24),
    "npm": "np" + "m_" + alnum(36),
    "huggingface": "h" + "f_" + chars(string.ascii_letters, 34),
    "sendgrid": "S" + "G." + alnum(22) + "." + alnum(43),
    "linear": "lin" + "_api_" + alnum(40),
}
JWT = "ey" + "JhbGciOiJIUzI1NiJ9" + ".ey" + "JzdWIiOiIxMjM0In0." + alnum(43)
CARD = "4111" + "1111" + "1111" + "1111"
IBAN = "DE89" + "370400440532013000"
SSN = "148" + "-24-" + "6047"
EMAIL = "maria.lopez" + "@example.com"

TRACE_ID = hexits(32)
IDENTIFIERS = {
    "git sha": hexits(40),
    "short sha": hexits(7),
    "sha256": hexits(64),
    "prefixed digest": "sha256:" + hexits(64),
    "integrity": "sha384-" + alnum(64),
    "trace id": TRACE_ID,
    "span id": hexits(16),
    "traceparent": f"00-{TRACE_ID}-{hexits(16)}-01",
    "uuid": str(uuid.UUID(hexits(32))),
    "ulid": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "prefixed ulid": "child-s-01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "completion id": "chatcmpl-" + alnum(29),
    "response id": "resp_" + hexits(48),
    "tool call id": "toolu_01" + alnum(22),
    "container": hexits(64),
    "kebab name": "a-very-long-file-name-with-many-words-in-it",
    "snake name": "test_that_the_very_long_function_name_is_not_masked_2",
    "camel name": "AbstractInterceptorDrivenBeanDefinitionDecorator",
    "model": "meta-llama/Llama-3.1-405B-Instruct-FP8-dynamic-quantized",
    "path": "/usr/local/lib/python3.11/site-packages/torch/nn/modules/module.py",
}
