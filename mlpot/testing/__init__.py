"""Physical and numerical checks that every potential has to pass; they need nothing but mlpot."""

from .battery import CHECKS, CheckResult, available_backends, run_battery

__all__ = ["CHECKS", "CheckResult", "available_backends", "run_battery"]
