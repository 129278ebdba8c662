"""A small agent on the harness: runs that can be suspended, decided on by people, and resumed elsewhere."""

from tracehold.agent.agent import Agent as Agent
from tracehold.agent.agent_tool import AgentTool as AgentTool
