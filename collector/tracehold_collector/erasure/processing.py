"""The record of processing activities (GDPR Art. 30), from what somebody writes down and what the collector knows.

Only a controller knows why data is processed and whose it is: that comes from a TOML file. How long what is kept, who
receives copies, and which security measures are at work stands in the settings, and is told from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from tracehold.core.version import __version__

from tracehold_collector.core.times import iso_utc
from tracehold_collector.core.toml_files import read_toml
from tracehold_collector.erasure.policies import Policy

_Texts = list[str]


class Party(BaseModel):
    """Somebody who answers for the processing, or is asked about it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=500)
    contact: str = Field(min_length=1, max_length=1000)


class Transfer(BaseModel):
    """Data that goes to a third country or an international organisation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    to: str = Field(min_length=1, max_length=500)
    safeguards: str = Field(min_length=1, max_length=2000)


class Activity(BaseModel):
    """What a controller says of one processing activity; each field names its letter of Art. 30(1).

    Attributes:
        name: of the activity, such as "Support agent".
        purposes: (b).
        subjects: categories of data subjects, (c).
        data: categories of personal data, (c).
        recipients: categories of recipients, (d), besides those the collector knows.
        transfers: (e).
        legal_basis: not asked for by Art. 30; of use all the same.
        tenants: whose data it is here; empty is every tenant's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(min_length=1, max_length=200)
    purposes: _Texts = Field(min_length=1, max_length=50)
    subjects: _Texts = Field(min_length=1, max_length=50)
    data: _Texts = Field(min_length=1, max_length=50)
    recipients: _Texts = Field(default_factory=list, max_length=50)
    transfers: list[Transfer] = Field(default_factory=list, max_length=50)
    legal_basis: str | None = Field(None, max_length=1000)
    tenants: _Texts = Field(default_factory=list, max_length=1000)


class Written(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    controller: Party
    joint_controller: Party | None = None
    representative: Party | None = None
    dpo: Party | None = None
    activity: list[Activity] = Field(min_length=1, max_length=100)
    measures: _Texts = Field(default_factory=list, max_length=100)


@dataclass(frozen=True, slots=True)
class Known:
    """What the collector knows itself.

    Attributes:
        policies: for retention.
        min_retention_days: what these have to leave.
        strict_erasure: whether an erasure needs a second person.
        access_log_days: how long reads are kept.
        audit_log: whether it is on.
        tree_head_copies: whether tree heads go to a second place.
        tls: whether the collector itself encrypts what is sent to it.
        keys: whether nobody gets in without one.
        forwards: receivers of what comes in.
        places: other stores that erasures reach.
    """

    policies: Sequence[Policy]
    min_retention_days: int
    strict_erasure: bool
    access_log_days: int
    audit_log: bool
    tree_head_copies: bool
    tls: bool
    keys: bool
    forwards: Sequence[str]
    places: Sequence[str]


def load_written(path: Path) -> Written:
    """Read the file (TOML).

    Raises:
        ConfigurationError: it cannot be read; says which entry and what is wrong with it.
    """
    return read_toml(path, Written, "the record of processing")


@dataclass(frozen=True, slots=True)
class Processing:
    """What the record is made of.

    Attributes:
        written: what somebody wrote down; `None` when nobody did.
        known: what the collector knows itself.
    """

    written: Written | None
    known: Known

    def record(self, now_ns: int) -> dict[str, Any]:
        """Return the record as of now; see `build_record`."""
        return build_record(self.written, self.known, now_ns)


def build_record(written: Written | None, known: Known, now_ns: int) -> dict[str, Any]:
    """Return the record: JSON values only; what nobody wrote down is null, and listed in `missing`."""
    told = None if written is None else written.model_dump(exclude={"activity", "measures"})
    activities = [] if written is None else [_activity(each, known) for each in written.activity]
    return {
        "type": "tracehold.records-of-processing",
        "version": 1,
        "as_of": iso_utc(now_ns),
        "made_by": f"tracehold {__version__}",
        **(told or dict.fromkeys(("controller", "joint_controller", "representative", "dpo"))),
        "activities": activities,
        "time_limits": _time_limits(known, None),
        "recipients_known": [f"receiver of forwards: {each}" for each in known.forwards],
        "measures": [*_measures(known), *(written.measures if written is not None else ())],
        "missing": [] if written is not None else ["controller", "contact", "purposes", "subjects", "data"],
    }


def _activity(activity: Activity, known: Known) -> dict[str, Any]:
    return activity.model_dump() | {"time_limits": _time_limits(known, activity.tenants or None)}


def _time_limits(known: Known, tenants: Iterable[str] | None) -> list[str]:
    """Return the time limits for erasure, Art. 30(1)(f)."""
    wanted = None if tenants is None else set(tenants)
    policies = [
        policy for policy in known.policies if wanted is None or policy.tenant is None or policy.tenant in wanted
    ]
    limits = [_policy_text(policy) for policy in policies]
    if not limits:
        limits = ["no retention policy: what is recorded is kept until somebody erases it"]
    return [
        *limits,
        f"at the earliest after {known.min_retention_days} days, but for requests under GDPR Art. 17",
        f"the log of accesses: {known.access_log_days} days",
    ]


def _policy_text(policy: Policy) -> str:
    what = "all" if policy.what == "all" else "content" + (f" of {', '.join(policy.kinds)}" if policy.kinds else "")
    whose = f"tenant {policy.tenant}" if policy.tenant else "every tenant without one of its own"
    agent = f", agent {policy.agent}" if policy.agent else ""
    return f"{what}: {policy.days} days after a run's and its session's last event ({policy.name}; {whose}{agent})"


def _measures(known: Known) -> list[str]:
    """Return the security measures, Art. 30(1)(g), that are at work here."""
    measures = {
        "secrets and personal data are masked by form, at the sender and again before they are stored": True,
        "ids of people and sessions are stored as keyed pseudonyms (HMAC-SHA256)": True,
        "content is sealed with a key of its run (AES-256-GCM), kept apart from it; erasure destroys the key": True,
        "roles: who may send, read, read content, audit, erase and administer is told by the key": known.keys,
        "reads, exports and administrative acts are logged with the key's name": True,
        "the audit log (RFC 6962) shows any later change; its tree heads are signed (Ed25519)": known.audit_log,
        "tree heads are copied to a second place": known.audit_log and known.tree_head_copies,
        "an erasure needs a second person": known.strict_erasure,
        "connections are encrypted by the collector itself (TLS)": known.tls,
        "files are readable by the collector's own user only": True,
        **{f"erasures reach the registered place {place}": True for place in known.places},
    }
    return [text for text, at_work in measures.items() if at_work]
