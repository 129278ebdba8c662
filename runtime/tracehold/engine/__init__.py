"""The event-sourced engine: runs that survive, budgets that hold, tenants that cannot meet, erasure that erases."""

from tracehold.engine.algorithm import Algorithm as Algorithm
from tracehold.engine.algorithm import Ctx as Ctx
from tracehold.engine.budget import Budget as Budget
from tracehold.engine.budget import Ledger as Ledger
from tracehold.engine.engine import Engine as Engine
from tracehold.engine.erasure import ErasureReport as ErasureReport
from tracehold.engine.handle import RunHandle as RunHandle
from tracehold.engine.memory import MemoryReport as MemoryReport
from tracehold.engine.memory import MemoryScope as MemoryScope
from tracehold.engine.retention import PurgeReport as PurgeReport
from tracehold.engine.retention import RetentionPolicy as RetentionPolicy
from tracehold.engine.tenancy import TenantScope as TenantScope
