"""The harness: the choke point through which every model call and tool call of an agent goes."""

from tracehold.governance.confirm import ConfirmCallback as ConfirmCallback
from tracehold.governance.confirm import cli_confirm as cli_confirm
from tracehold.harness.harness import Harness as Harness
