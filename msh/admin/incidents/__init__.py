"""Incidents, calls to operators, and bulk jobs."""
