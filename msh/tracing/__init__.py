"""Spans for OpenTelemetry, as `msh/trace_hook.py` records them: a feature that the core does not
know."""
