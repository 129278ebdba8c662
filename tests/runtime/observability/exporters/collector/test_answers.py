"""What each answer means."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from tracehold.observability.exporters.collector.answers import Action, Verdict, judge
from tracehold.observability.exporters.collector.transport import Answer

NOW = datetime(2025, 3, 1, 12, 0, 0, tzinfo=UTC)


def answer(status, said=None, retry_after=None):
    return Answer(status, retry_after, None, b"" if said is None else orjson.dumps(said))


@pytest.mark.parametrize(
    ("status", "action"),
    [
        (200, Action.RETRY),
        (204, Action.KEEP),
        (302, Action.KEEP),
        (400, Action.HALVE),
        (401, Action.KEEP),
        (403, Action.KEEP),
        (404, Action.KEEP),
        (405, Action.KEEP),
        (408, Action.RETRY),
        (413, Action.HALVE),
        (415, Action.PLAIN),
        (422, Action.HALVE),
        (429, Action.RETRY),
        (500, Action.RETRY),
        (502, Action.RETRY),
        (503, Action.RETRY),
        (504, Action.RETRY),
    ],
)
def test_every_status_has_one_meaning(status, action):  # FR-05
    assert judge(answer(status), NOW).action is action


def test_a_pause_is_read_from_every_answer_that_means_later():  # FR-05
    assert judge(answer(429, retry_after="7"), NOW) == Verdict(Action.RETRY, "HTTP 429", asked_s=7.0)


@pytest.mark.parametrize(
    ("said", "rejected"),
    [
        ({"accepted": 3}, 0),
        ({"accepted": 3, "rejected": []}, 0),
        ({"accepted": 1, "rejected": [{}, {}]}, 2),
        ({"accepted": 1, "rejected": [{}], "rejected_count": 500}, 500),
        ({"accepted": 1, "rejected": "?", "rejected_count": None}, 0),
    ],
)
def test_rejections_are_counted_also_beyond_the_list(said, rejected):
    verdict = judge(answer(200, said), NOW)
    assert (verdict.action, verdict.rejected) == (Action.TAKEN, rejected)


@pytest.mark.parametrize(
    ("status", "said", "reason"),
    [
        (
            200,
            {"accepted": 1, "rejected": [{"where": "line 2", "reason": "no type"}, {"reason": "x"}]},
            "line 2: no type",
        ),
        (200, {"accepted": 1, "rejected": [{"reason": "no\n\x1btype"}]}, "no  type"),
        (200, {"accepted": 1, "rejected": [{"reason": "x" * 500}]}, "x" * 197 + "..."),
        (200, {"accepted": 1, "rejected": [{"where": "line 2"}]}, None),
        (200, {"accepted": 1, "rejected": ["?"]}, None),
        (200, {"accepted": 1}, None),
        (413, {"error": "the body is too large"}, "the body is too large"),
        (400, ["?"], None),
        (422, None, None),
    ],
)
def test_the_first_reason_is_read_as_a_log_may_have_it(status, said, reason):
    assert judge(answer(status, said), NOW).reason == reason


def test_duplicates_are_read():
    assert judge(answer(200, {"accepted": 0, "duplicates": 4}), NOW).duplicates == 4
