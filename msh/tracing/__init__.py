"""Spans for OpenTelemetry of what `msh/trace_hook.py` is told: a feature that the core does not
know."""
