"""What one run is: its context, its limits, its state when it is suspended, and where that state is kept."""

from tracehold.core.run_context import current_run_id as current_run_id
from tracehold.core.run_context import current_scope as current_scope
from tracehold.core.run_context import current_step as current_step
from tracehold.core.run_context import current_trace_carrier as current_trace_carrier
from tracehold.core.run_context import new_run_id as new_run_id
from tracehold.execution.checkpoints import CheckpointStore as CheckpointStore
from tracehold.execution.checkpoints import SqliteCheckpointStore as SqliteCheckpointStore
from tracehold.execution.governed import governed_chat as governed_chat
from tracehold.execution.policy import RunPolicy as RunPolicy
from tracehold.execution.running import check_limits as check_limits
from tracehold.execution.running import correlation as correlation
from tracehold.execution.running import limited as limited
from tracehold.execution.running import record_llm as record_llm
from tracehold.execution.running import record_tool as record_tool
from tracehold.execution.running import reset_run as reset_run
from tracehold.execution.running import start_run as start_run
from tracehold.execution.state import ExecutionState as ExecutionState
