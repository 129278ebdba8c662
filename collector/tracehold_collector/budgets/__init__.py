"""What may be spent, how much of it is, and what it will come to if it goes on like this."""

from tracehold_collector.budgets.budget import Budget as Budget
from tracehold_collector.budgets.budget import load_budgets as load_budgets
from tracehold_collector.budgets.state import Budgets as Budgets
from tracehold_collector.budgets.state import BudgetState as BudgetState
