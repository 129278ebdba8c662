r"""What may be done about a denial, and what becomes of its review: rules without a store.

    open --assign--> assigned --verdict--> reviewed            (justified, false alarm)
      \------------verdict-----------/ \-> awaiting_sign_off  (incident) --sign_off by another login--> closed
    reviewed, awaiting_sign_off, closed --reopen--> open

`reviewed` reads as `closed` once somebody signed the day off on which the denial came in (`signed_days` in the store).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from tracehold_collector.access.principal import Principal
from tracehold_collector.core.errors import BadBodyError, ConflictError, NotAllowedError

State = Literal["open", "assigned", "reviewed", "awaiting_sign_off", "closed"]
Act = Literal["assign", "verdict", "sign_off", "reopen"]
Verdict = Literal["justified", "false_alarm", "incident"]

STATES: Final[tuple[State, ...]] = get_args(State)
ACTS: Final[tuple[Act, ...]] = get_args(Act)
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)

MAX_NOTE_CHARS: Final = 4_000

_FROM: Final[dict[Act, tuple[State, ...]]] = {
    "assign": ("open", "assigned"),
    "verdict": ("open", "assigned"),
    "sign_off": ("awaiting_sign_off",),
    "reopen": ("reviewed", "awaiting_sign_off", "closed"),
}
_LOGIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 .:@/+_-]{0,63}")
"""What `tracehold keys create` takes for a name."""


@dataclass(frozen=True, slots=True)
class Review:
    """How the review of one denial stands.

    Attributes:
        state: see the module.
        revision: acts so far.
        assignee: the login that has it.
        verdict: what was found.
        verdict_by, verdict_key: the login that said so, and the id of its key, if it has one.
    """

    state: State = "open"
    revision: int = 0
    assignee: str | None = None
    verdict: Verdict | None = None
    verdict_by: str | None = None
    verdict_key: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """What somebody wants to do about a denial.

    Attributes:
        act: which step.
        revision: the acts they saw; another number refuses the step.
        assignee: of `assign`; `None` is whoever asks.
        verdict: of `verdict`.
        note: free text, content.
    """

    act: Act
    revision: int
    assignee: str | None = None
    verdict: Verdict | None = None
    note: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no review can take.

        Raises:
            BadBodyError: says which part, and what it takes.
        """
        if self.assignee is not None and (self.act != "assign" or not _LOGIN.fullmatch(self.assignee)):
            raise BadBodyError(
                "'assignee' goes with 'assign' and is the name of a key: 1 to 64 letters, digits, spaces and .:@/+-_"
            )
        if (self.verdict is None) == (self.act == "verdict"):
            raise BadBodyError(f"'verdict' goes with 'verdict' and is one of {', '.join(VERDICTS)}")
        if self.note is not None and not 0 < len(self.note) <= MAX_NOTE_CHARS:
            raise BadBodyError(f"'note' is a text of at most {MAX_NOTE_CHARS:,} characters; leave an empty one out")
        if self.note is None and (self.act == "reopen" or self.verdict == "incident"):
            what = "reopening" if self.act == "reopen" else "an incident"
            raise BadBodyError(f"{what} needs a 'note' that says why: whoever signs it off has nothing else to go by")


def after(review: Review, wish: Wish, who: Principal) -> Review:
    """Return what becomes of `review` when `who` does as wished.

    Raises:
        ConflictError: somebody acted since, or the step is none from here.
        NotAllowedError: the second sign-off by the login that gave the verdict.
    """
    if wish.revision != review.revision:
        raise ConflictError(
            f"somebody acted on this denial since you looked: it is {review.state} after {review.revision} acts, you "
            f"saw {wish.revision}. Look at it again and decide anew; nothing was changed"
        )
    if review.state not in _FROM[wish.act]:
        raise ConflictError(f"{wish.act} is no step from {review.state}; {_possible(review.state)}")
    if wish.act == "sign_off" and _gave_verdict(review, who):
        raise NotAllowedError(
            f"{who.name!r} gave this verdict; the second sign-off must come from another login. Ask a colleague with a "
            "key of their own ('tracehold keys create --role audit')"
        )
    following = replace(review, revision=review.revision + 1)
    if wish.act == "assign":
        return replace(following, state="assigned", assignee=wish.assignee or who.name)
    if wish.act == "verdict":
        state: State = "awaiting_sign_off" if wish.verdict == "incident" else "reviewed"
        return replace(following, state=state, verdict=wish.verdict, verdict_by=who.name, verdict_key=who.key_id)
    if wish.act == "sign_off":
        return replace(following, state="closed")
    return Review(revision=following.revision)


def _gave_verdict(review: Review, who: Principal) -> bool:
    return review.verdict_by == who.name or (who.key_id is not None and review.verdict_key == who.key_id)


def _possible(state: State) -> str:
    acts = [act for act, states in _FROM.items() if state in states]
    return f"what can be done now: {', '.join(acts)}"
