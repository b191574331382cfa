"""What the flows refuse."""


class NotPossible(ValueError):
    """The action makes no sense now (D62). `str()` is a sentence; nothing has changed."""
