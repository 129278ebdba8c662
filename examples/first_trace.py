"""Records a run in memory and prints its timeline. Needs `pip install .` and nothing else."""

from __future__ import annotations

from tracehold import Tracer


def main() -> None:
    """Run a very small agent under a Tracer."""
    tracer = Tracer()
    with tracer.run("greet", agent="greeter"):
        with tracer.span("chat", kind="llm", model="small-model") as call:
            call.set(usage={"prompt_tokens": 9, "completion_tokens": 4})
        with tracer.span("say", kind="tool", tool="say", params={"text": "hello", "api_key": "not-shown"}):
            pass
    print(tracer)
    print(tracer.summary())


if __name__ == "__main__":
    main()
