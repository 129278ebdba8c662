"""`index.html` and `README.txt` of a bundle: what it holds, for people, without a script."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from tracehold_collector.core.times import iso_utc

MAX_ROWS: Final = 5_000
"""Records that the page lists; all are in records.jsonl."""

_COLUMNS: Final = ("started_at", "kind", "type", "name", "status", "decision", "decided_by", "rule", "agent", "run_id")

_STYLE: Final = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1200px;padding:0 1rem;color:#1b1f24}"
    "table{border-collapse:collapse;width:100%;font-size:13px}th,td{text-align:left;padding:.3rem .5rem;"
    "border-bottom:1px solid #d8dee4;vertical-align:top;overflow-wrap:anywhere}th{background:#f6f8fa}"
    "dl{display:grid;grid-template-columns:12rem 1fr;gap:.2rem 1rem}dt{color:#57606a}"
    "dd{margin:0;overflow-wrap:anywhere}"
    "code{background:#f6f8fa;padding:.1rem .3rem}.scroll{overflow-x:auto}"
)

_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Evidence: {title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
<p>This page is for reading. It proves nothing by itself: anybody can write a page. What proves it is the check with
<code>verify_evidence.py</code> or <code>verify_evidence.html</code>, see <code>README.txt</code>.</p>
<dl>{facts}</dl>
<h2>Records</h2>
<p>{listed}</p>
<div class="scroll"><table>
<thead><tr><th>leaf</th>{head}<th>event</th></tr></thead>
<tbody>
{rows}
</tbody>
</table></div>
</body>
</html>
"""

README: Final = """Evidence bundle of Tracehold
============================

{title}

index.html            what is in here, for reading
records.jsonl         the records: the whole envelope of each event, exact, a line each
content.jsonl         what the events said, with the salts (only when it was asked for)
population.jsonl      every event that answers the question (only when the records are a sample of them)
others.jsonl          every other event of the range of leaves (only when completeness was asked for)
erased.jsonl          leaves whose records were erased, with the erasure of each
leaves.bin            the hash of every leaf of the range, 32 bytes each
nodes.txt             hashes of the Merkle tree that prove the leaves: level, index, base64
heads/                signed tree heads (c2sp.org/tlog-checkpoint)
stamps/               time stamps of tree heads by an authority (RFC 3161), where the operator has them made
evidence.json         the question, the population, the sample, where everything is
verifier_keys.txt     the log's verifier keys, as the server knows them

How to check it
---------------

1. Get the log's verifier key from whoever runs it, by another way than this file (a signed letter, their web site, an
   earlier audit). 'tracehold log keys' prints it there. The keys in here prove nothing: whoever makes up records can
   make up a key as well.
2. With Python 3.9 or later:   pip install cryptography
                               python verify_evidence.py {name} --key 'THE KEY'
   Or open verify_evidence.html in a browser, give it the key, and drop the zip file on it. Neither needs a network.
3. Bring a tree head that you hold from an earlier day or from a second place (--tree-head FILE): then nobody can have
   rewritten the log since without being seen. If the bundle does not reach back to it, ask for a bundle that does:
   tracehold export evidence ... --tree-head FILE

4. If there is a time stamp, an authority that is not the operator's says by when the records were there. Get its
   certificate from the authority, and check with OpenSSL, which is on most machines:
   openssl ts -verify -data heads/SIZE.txt -in stamps/SIZE.tsr -CAfile AUTHORITY.pem

The verifiers in here came from the same place as the rest. Use one that you got from Tracehold itself if that matters
to you, or write your own: the formats are published, see the page "Evidence bundles" of Tracehold's documentation.
"""


def index_page(title: str, facts: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], records: int) -> str:
    """Return the page.

    Args:
        title: the question.
        facts: what to say about the bundle, by name; `None` is left out.
        rows: records to list, at most `MAX_ROWS`.
        records: how many there are.
    """
    listed = f"{records:,} records." if records <= len(rows) else f"The first {len(rows):,} of {records:,} records."
    return _PAGE.format(
        title=html.escape(title),
        style=_STYLE,
        facts="".join(_fact(name, value) for name, value in facts.items() if value is not None),
        listed=listed,
        head="".join(f"<th>{name.replace('_', ' ')}</th>" for name in _COLUMNS),
        rows="\n".join(_row(row) for row in rows),
    )


def _fact(name: str, value: Any) -> str:
    return f"<dt>{html.escape(name)}</dt><dd>{html.escape(str(value))}</dd>"


def _row(row: Mapping[str, Any]) -> str:
    leaf = "not in the log" if row["leaf_index"] is None else row["leaf_index"]
    return f"<tr>{_cells([leaf, *(_shown(name, row[name]) for name in _COLUMNS), row['event_id']])}</tr>"


def _cells(values: Iterable[Any]) -> str:
    return "".join(f"<td>{'' if value is None else html.escape(str(value))}</td>" for value in values)


def _shown(name: str, value: Any) -> Any:
    return iso_utc(value) if name == "started_at" else value
