"""Limits of business keys: values of payloads by which messages are found."""

SIZE_LIMIT = 1024 * 1024
"""Bytes of a payload that is searched; nothing is found in a larger one."""
VALUE_LIMIT = 200
"""Characters of a value: a longer one is no key. Blanks count once, as in a search box."""
PATH_LIMIT = 500


class PathRefused(ValueError):
    """`str()` is a sentence: what is wrong with a path or its namespaces, and the cure."""
