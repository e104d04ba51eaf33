"""The benchmark harness behind evals/run.py: see docs/performance.md."""
