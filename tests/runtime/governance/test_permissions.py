"""Allow and deny lists of tools and origins."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracehold.governance import Permissions, PolicyPermissions, ToolPermissions, ToolRef, Verdict, judge
from tracehold.governance.permissions import NamedTool
from tracehold.tools.base import Tool, ToolParameter

names = st.sampled_from(["search", "shell", "send_email", "Shell"])
origins = st.sampled_from(["builtin", "mcp-a", "mcp-b"])
lists = st.none() | st.lists(names)
origin_lists = st.none() | st.lists(origins)


class Shell(Tool):
    def get_parameters(self) -> list[ToolParameter]:
        return []


def test_an_allowed_tool_has_no_denial_reason_and_a_denied_one_a_readable_one() -> None:  # PERM-01
    permissions = ToolPermissions(deny=["shell"])
    assert permissions.denial_reason("search") is None
    assert permissions.denial_reason("shell") == "tool shell is on the deny list"
    assert permissions.denial_reason(Shell("shell", "runs a command")) == "tool shell is on the deny list"


def test_the_documented_order_of_parameters_stands() -> None:
    permissions = ToolPermissions(["search"], ["shell"], ["builtin"], ["mcp-a"], None)
    assert permissions.decide(ToolRef("x", "mcp-a")).rule == "deny_origins:mcp-a"
    assert permissions.decide("search").rule == "allow"


def test_without_lists_everything_is_allowed() -> None:  # PERM-03
    assert ToolPermissions().denial_reason("anything") is None
    assert ToolPermissions().decide(ToolRef("anything", "anywhere")).allowed


@given(lists, st.lists(names), origin_lists, st.lists(origins), names, origins)
def test_deny_wins_over_allow_by_name_and_by_origin(allow, deny, allow_origins, deny_origins, name, origin) -> None:
    permissions = ToolPermissions(allow, [*deny, name], allow_origins, deny_origins)  # PERM-02
    assert permissions.denial_reason(name) is not None
    assert permissions.denial_reason(ToolRef(name, origin)) is not None
    permissions = ToolPermissions(allow, deny, allow_origins, [*deny_origins, origin])
    assert permissions.denial_reason(ToolRef(name, origin)) is not None


@given(lists, st.lists(names), origin_lists, st.lists(origins), names, origins)
def test_lists_say_what_set_algebra_says(allow, deny, allow_origins, deny_origins, name, origin) -> None:
    permissions = ToolPermissions(allow, deny, allow_origins, deny_origins)  # PERM-02, PERM-03, PERM-04
    listed = (allow is None and allow_origins is None) or name in (allow or ()) or origin in (allow_origins or ())
    expected = listed and name not in deny and origin not in deny_origins
    assert permissions.decide(ToolRef(name, origin)).allowed is expected
    assert (permissions.denial_reason(ToolRef(name, origin)) is None) is expected


def test_none_is_no_list_and_an_empty_list_allows_nothing() -> None:  # PERM-03
    assert ToolPermissions(allow=None).denial_reason("search") is None
    assert ToolPermissions(allow=[]).denial_reason("search") == "tool search is on no allow list"
    assert ToolPermissions(allow_origins=[]).denial_reason(ToolRef("search", "builtin")) is not None


def test_a_tool_must_match_one_of_the_allow_lists() -> None:  # PERM-03
    permissions = ToolPermissions(allow=["search"], allow_origins=["builtin"])
    assert permissions.denial_reason(ToolRef("search", "mcp-a")) is None
    assert permissions.denial_reason(ToolRef("other", "builtin")) is None
    assert permissions.denial_reason(ToolRef("other", "mcp-a")) is not None


@pytest.mark.parametrize("name", ["Shell", "shell ", "shel", "shells", "sh*", "\u0455hell"])  # noqa: RUF100
def test_matching_is_exact(name: str) -> None:  # PERM-04
    assert ToolPermissions(allow=["shell"]).denial_reason(name) is not None
    assert ToolPermissions(deny=["shell"]).denial_reason(name) is None


def test_a_plain_name_is_judged_by_name_only() -> None:  # PERM-04
    assert ToolPermissions(deny_origins=["mcp-a"]).denial_reason("search") is None
    assert ToolPermissions(allow_origins=["builtin"]).denial_reason("search") is not None


def test_a_foreign_tool_with_a_trusted_name_is_still_refused_by_an_origin_list() -> None:  # PERM-04
    borrowed = Shell("search", "looks like search", origin="mcp-a")
    assert ToolPermissions(allow=["search"]).denial_reason(borrowed) is None
    assert ToolPermissions(allow=["search"], deny_origins=["mcp-a"]).denial_reason(borrowed) is not None
    assert ToolPermissions(allow_origins=["builtin"]).denial_reason(borrowed) is not None


@pytest.mark.parametrize(
    ("permissions", "tool", "rule"),
    [
        (ToolPermissions(deny=["shell"]), "shell", "deny:shell"),
        (ToolPermissions(deny_origins=["mcp-a"]), ToolRef("x", "mcp-a"), "deny_origins:mcp-a"),
        (ToolPermissions(allow=["search"]), "search", "allow"),
        (ToolPermissions(allow_origins=["builtin"]), ToolRef("x", "builtin"), "allow_origins"),
        (ToolPermissions(allow=["search"]), "shell", "unlisted"),
        (ToolPermissions(deny=["shell"]), "search", "default"),
    ],
)
def test_a_verdict_names_what_decided(permissions: ToolPermissions, tool: str | NamedTool, rule: str) -> None:
    verdict = permissions.decide(tool, {"any": "arguments"})
    assert verdict.rule == rule
    assert (verdict.reason is None) is verdict.allowed
    assert verdict.policy_digest == permissions.policy_digest


def test_the_digest_is_of_what_the_lists_hold_not_of_how_they_were_given() -> None:
    one = ToolPermissions(allow=["a", "b", "a"], deny=("x",))
    other = ToolPermissions(allow=iter(["b", "a"]), deny={"x"})
    assert one.policy_digest == other.policy_digest
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", one.policy_digest)
    assert one.policy_digest != ToolPermissions(allow=["a", "b"], deny=[]).policy_digest
    assert ToolPermissions(allow=[]).policy_digest != ToolPermissions(allow=None).policy_digest


def test_a_list_that_is_used_up_by_reading_is_read_once() -> None:
    permissions = ToolPermissions(deny=(name for name in ["shell"]))
    assert permissions.denial_reason("shell") == permissions.denial_reason("shell") != None  # noqa: E711


@pytest.mark.parametrize("parameter", ["allow", "deny", "allow_origins", "deny_origins"])
@pytest.mark.parametrize("value", ["shell", b"shell", 5, ["shell", 5]])
def test_a_text_in_the_place_of_a_list_is_refused(parameter: str, value: object) -> None:
    with pytest.raises(TypeError, match=f"^{parameter} must"):
        ToolPermissions(**{parameter: value})  # type: ignore[arg-type]  # the mistake under test


def test_an_empty_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="deny holds an empty name"):
        ToolPermissions(deny=[""])


def test_the_lists_cannot_be_changed_behind_the_digest() -> None:
    deny = ["shell"]
    permissions = ToolPermissions(deny=deny)
    deny.clear()
    assert permissions.denial_reason("shell") is not None
    with pytest.raises(AttributeError):
        permissions.policy_digest = "sha256:0"  # type: ignore[misc]  # the mistake under test


def test_a_name_a_model_made_up_is_cut_in_the_reason() -> None:
    reason = ToolPermissions(allow=[]).denial_reason("x" * 100_000)
    assert reason is not None
    assert len(reason) < 120


def test_what_is_neither_tool_nor_name_is_refused() -> None:
    with pytest.raises(TypeError, match="a tool or its name, not int"):
        ToolPermissions().denial_reason(5)  # type: ignore[arg-type]  # the mistake under test


class OfficeHours(ToolPermissions):
    """A subclass written to the documented surface, which has no `decide`."""

    def denial_reason(self, tool: str | NamedTool) -> str | None:
        return "the office is closed" if tool == "search" else None


def test_a_subclass_that_overrides_only_the_documented_method_is_obeyed() -> None:
    permissions = OfficeHours(deny=["shell"])
    assert permissions.decide("search") == Verdict(
        False, "OfficeHours", "the office is closed", permissions.policy_digest
    )
    assert permissions.decide("shell").allowed
    assert judge(permissions, "search").allowed is False


class OnlyDocumented:
    def denial_reason(self, tool: object) -> str | None:
        return None if tool == "search" else "never"


def test_permissions_with_only_the_documented_method_can_be_judged() -> None:
    assert judge(OnlyDocumented(), "search") == Verdict(True, "OnlyDocumented")
    assert judge(OnlyDocumented(), "shell") == Verdict(False, "OnlyDocumented", "never")


def test_an_answer_that_is_no_verdict_is_no_yes() -> None:
    class Sloppy:
        def decide(self, tool: object, parameters: object) -> bool:
            return True

    class Sloppier:
        def denial_reason(self, tool: object) -> bool:
            return False

    for permissions in (Sloppy(), Sloppier()):
        with pytest.raises(TypeError, match="must return"):
            judge(permissions, "shell")
    with pytest.raises(TypeError, match="object has none"):
        judge(object(), "shell")


def test_both_kinds_of_permissions_follow_the_protocol() -> None:
    both: list[Permissions] = [ToolPermissions(), PolicyPermissions([])]
    assert all(isinstance(permissions, Permissions) for permissions in both)
