"""Policies in files: TOML and JSON say the same, and every fault is told with its place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from tracehold.core.errors import ConfigurationError
from tracehold.governance import PolicyPermissions, ToolRef, load_policy, parse_policy
from tracehold.governance.policy_file import MAX_POLICY_BYTES

TOML = """
# who may be written to
version = 1
name = "support desk"

[[rules]]
id = "mail-inside"
effect = "allow"
tools = ["send_*"]
when = [
    { argument = "to.*", op = "glob", value = "*@corp.example" },
    { argument = "attachments", op = "absent" },
]

[[rules]]
id = "no-shell"
effect = "deny"
tools = ["shell", "exec*"]
origins = ["mcp-*"]
reason = "Commands are run by people."
"""

SAME = {
    "rules": [
        {
            "effect": "deny",
            "id": "no-shell",
            "origins": ["mcp-*"],
            "reason": "Commands are run by people.",
            "tools": ["shell", "exec*"],
        },
        {
            "id": "mail-inside",
            "effect": "allow",
            "tools": ["send_*"],
            "when": [
                {"argument": ["to", "*"], "op": "glob", "value": "*@corp.example"},
                {"argument": "attachments", "op": "absent"},
            ],
        },
    ],
    "default": "deny",
    "name": "support desk",
    "version": 1,
}


def written(folder: Path, content: str | bytes, name: str = "policy.toml") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def faults(document: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        parse_policy(document)
    return str(caught.value)


def test_a_toml_file_becomes_permissions(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, TOML))
    assert policy.name == "support desk"
    assert policy.decide("send_mail", {"to": ["ada@corp.example"]}).rule == "mail-inside"
    assert policy.decide("send_mail", {"to": ["ada@corp.example", "eve@example.org"]}).allowed is False
    assert policy.decide(ToolRef("shell", "mcp-a"), {}).reason == "Commands are run by people."


def test_layout_comments_order_and_format_do_not_change_the_digest(tmp_path: Path) -> None:
    one = load_policy(written(tmp_path, TOML))
    other = load_policy(str(written(tmp_path, json.dumps(SAME, indent=4), "policy.JSON")))
    assert one.policy_digest == other.policy_digest
    changed = load_policy(written(tmp_path, TOML.replace("corp.example", "corp.example.org"), "changed.toml"))
    assert changed.policy_digest != one.policy_digest


def test_somebody_else_can_compute_the_digest(tmp_path: Path) -> None:
    policy = load_policy(written(tmp_path, TOML))
    assert policy.policy_digest == "sha256:" + hashlib.sha256(rfc8785.dumps(policy.to_dict())).hexdigest()


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    assert load_policy(written(tmp_path, b"\xef\xbb\xbfversion = 1")).default == "deny"


def test_a_policy_without_rules_denies_everything() -> None:
    assert parse_policy({"version": 1}).decide("anything", {}).allowed is False


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b"version = ", "policy.toml", "is no TOML"),
        (b"\xff", "policy.toml", "is no TOML in UTF-8"),
        (b'{"version": 1', "policy.json", "is no JSON"),
        (b'{"version": 1, "version": 1}', "policy.json", "a key stands twice"),
        (b'{"version": NaN}', "policy.json", "NaN is no JSON"),
        (b"[" * 100_000, "policy.json", "nested too deep"),
        (b"[]", "policy.json", "must be an object, not list"),
        (b"version: 1", "policy.yaml", r"must end in \.toml or \.json"),
        (b"#" * (MAX_POLICY_BYTES + 1), "policy.toml", "is larger than 1048576 bytes"),
    ],
)
def test_a_file_that_is_no_policy_is_refused_by_name(tmp_path: Path, content: bytes, name: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"policy file .*{name}.* {words}|policy file .*{name}:? {words}"):
        load_policy(written(tmp_path, content, name))


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"missing\.toml cannot be read: No such file"):
        load_policy(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "key version: must be 1"),
        ({"version": True}, "key version: must be 1"),
        ({"version": "1"}, "key version: must be 1"),
        ({"rule": []}, "key rule: is unknown, known are version, name, default, rules"),
        ({"rules": {}}, "key rules: must be a list of rules"),
        ({"rules": ["x"]}, "rule 1, must be an object, not str"),
        ({"default": "ask"}, "key default: must be allow or deny"),
        ({"default": None}, "key default: must be allow or deny"),
        ({"name": 5}, "key name: must be a text"),
    ],
)
def test_a_fault_of_the_policy_names_the_key(change: dict[str, Any], words: str) -> None:
    assert words in faults({"version": 1} | change)


RULE = {"id": "r1", "effect": "allow", "tools": ["*"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tools": "shell"}, "rule 1 (r1), key tools: must be a list of patterns, not str"),
        ({"tools": None}, "rule 1 (r1), key tools: must be a list of patterns, not NoneType"),
        ({"tools": []}, "rule 1 (r1), key tools: must be a list of texts"),
        ({"origins": {"a": 1}}, "rule 1 (r1), key origins: must be a list of patterns, not dict"),
        ({"effect": ["allow"]}, "rule 1 (r1), key effect: must be allow or deny"),
        ({"id": 5}, "rule 1, key id: must be"),
        ({"tool": ["x"]}, "rule 1 (r1), key tool: is unknown"),
        ({"reason": 5}, "rule 1 (r1), key reason: must be"),
        ({"when": {"argument": "a", "op": "present"}}, "rule 1 (r1), key when: must be a list of conditions, not dict"),
        ({"when": ["a"]}, "rule 1 (r1), key when, condition 1, must be an object, not str"),
        ({"when": [{"op": "present"}]}, "key when, condition 1, key argument: is missing"),
        ({"when": [{"argument": "a", "op": "present", "path": "b"}]}, "condition 1, key path: is unknown"),
        ({"when": [{"argument": 5, "op": "present"}]}, "condition 1, key argument: must be"),
        ({"when": [{"argument": "a", "op": []}]}, "condition 1, key op: must be one of"),
        (
            {"when": [{"argument": "a", "op": "matches", "value": "(a"}]},
            "key value: matches is no pattern a policy can use",
        ),
        ({"when": [{"argument": "a", "op": "equals"}]}, "key value: equals cannot be null"),
    ],
)
def test_a_fault_of_a_rule_names_rule_and_key(change: dict[str, Any], words: str) -> None:
    assert words in faults({"version": 1, "rules": [RULE | change]})


def test_a_date_of_toml_is_no_value(tmp_path: Path) -> None:
    text = 'version = 1\n[[rules]]\nid = "d"\neffect = "allow"\ntools = ["*"]\n'
    text += 'when = [{ argument = "day", op = "equals", value = 2026-01-01 }]'
    with pytest.raises(
        ConfigurationError, match=r"rule 1 \(d\), key when, condition 1, key value: equals is no JSON value"
    ):
        load_policy(written(tmp_path, text))


def test_all_faults_are_told_at_once() -> None:
    text = faults({"rules": [{"id": "a"}, RULE | {"tools": "x"}, RULE | {"id": "b", "effect": "x"}]})
    for words in (
        "key version",
        "rule 1 (a), key effect: is missing",
        "rule 2 (r1), key tools",
        "rule 3 (b), key effect",
    ):
        assert words in text


def test_two_rules_with_one_id_are_refused() -> None:
    assert "key id: several rules are called r1" in faults({"version": 1, "rules": [RULE, RULE]})


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["version", "rules", "id", "tools", "when", "op", "value", "x"]), inner, max_size=4
        )
    ),
    max_leaves=15,
)


@given(anything, anything)
def test_whatever_a_file_holds_it_is_a_policy_or_a_configuration_error(document: Any, condition: Any) -> None:
    for candidate in (
        document,
        {"version": 1, "rules": document},
        {"version": 1, "rules": [RULE | {"when": [document]}]},
        {"version": 1, "rules": [RULE | {"when": [{"argument": "a", "op": document, "value": condition}]}]},
        {"version": 1, "rules": [RULE | {"when": [{"argument": document, "op": "in", "value": condition}]}]},
    ):
        try:
            assert isinstance(parse_policy(candidate), PolicyPermissions)
        except ConfigurationError as error:
            assert str(error).startswith("policy")  # noqa: PT017 - either outcome is fine, another exception is not
