"""Errors whose text is for people."""


class JobFailed(Exception):
    """The job cannot be done: one sentence with the cure."""
