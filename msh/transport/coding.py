"""Answers that a server, or a proxy before it, has compressed although we ask for identity."""

import zlib

_BITS = {"gzip": (31,), "x-gzip": (31,), "deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS)}
"""Formats as zlib numbers them: deflate has a frame by RFC 9110, which some servers leave out."""
_UNREADABLE = frozenset({"br", "compress", "x-compress", "dcb", "dcz", "exi", "zstd"})
_LAYERS = 3
"""So many codings, one over the other, are taken off."""
_MEMBERS = 100
"""So many members are read, one after the other: each costs a copy of what follows it."""
_GZIP_MAGIC = b"\x1f\x8b"


class UnreadableCoding(ValueError):
    """`str()` names the Content-Encoding."""


def decoded(body: bytes, encoding: str, limit: int) -> tuple[bytes, bool]:
    """The first `limit` bytes of `body` without its Content-Encoding, and whether that is all of
    it. No more than a few times `limit` bytes are held, whatever `body` would become.

    A name that is no compression ("identity", "utf-8", "binary") changes nothing. Raises
    UnreadableCoding for what cannot be taken off.
    """
    names = [name.strip(" \t\"'").lower() for name in encoding.split(",")]
    layers = [name for name in names if name in _BITS or name in _UNREADABLE]
    if len(layers) > _LAYERS or not _UNREADABLE.isdisjoint(layers):
        raise UnreadableCoding(encoding)
    whole = True
    for name in reversed(layers):
        inflated = (_inflated(body, bits, limit) for bits in _BITS[name])
        found = next((each for each in inflated if each is not None), None)
        if found is None:
            raise UnreadableCoding(encoding)
        body, all_of_it = found
        whole = whole and all_of_it
    return body[:limit], whole and len(body) <= limit


def _inflated(body: bytes, bits: int, limit: int) -> tuple[bytes, bool] | None:
    """Members one after the other, as gzip allows. What breaks off is not whole. None: it is not in
    this format."""
    text, rest = b"", body
    for _ in range(_MEMBERS):
        if not rest or len(text) > limit:
            break
        member = zlib.decompressobj(bits)
        try:
            text += member.decompress(rest, limit + 1 - len(text))
        except zlib.error:
            return (text, False) if text else None
        if not member.eof:
            return text, False
        rest = member.unused_data if member.unused_data.startswith(_GZIP_MAGIC) else b""
    return text, not rest
