"""The options of format `ebxml`, as text from Spark to checked values. Read on the driver only."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import urlsplit

API = "/api/v1"
LINES_OF_A_REQUEST = 5_000
"""The most that `POST messages/bulk` takes."""

_CONNECTION = ("url", "token", "tokenEnv", "tokenFile", "requestTimeout", "retryTimeout")
_IDS = ("idColumn", "keyColumns", "jobId")
_SENDING = ("orderColumn", "batchSize", "compression", "rejectedPath")
BATCH_WRITE = (*_CONNECTION, *_IDS, *_SENDING, "summaryPath")
STREAM_WRITE = (*_CONNECTION, *_IDS, *_SENDING, "checkpointLocation")
_READING = (*_CONNECTION, "feed", "pageSize", "payloads")
_FILTERS = {
    "partner": "partner",
    "tpaId": "tpa_id",
    "serviceInterface": "service_interface",
    "action": "action",
}
"""Option → query parameter. The others change with time, so that a stream has none of them."""
_BATCH_FILTERS = {**_FILTERS, "state": "state"}
_TIMES = {"since": "since", "until": "until"}
_STARTING = ("startingPosition", "startingTimestamp", "failOnDataLoss")
_OF_INBOUND = (
    *_STARTING,
    *("endingPosition", "payloads", "serviceInterface", "action", "numPartitions"),
)
READ = (*_READING, "numPartitions", *_BATCH_FILTERS, *_TIMES, *_OF_INBOUND)
STREAM_READ = (*_READING, "maxMessagesPerTrigger", *_FILTERS, *_STARTING)
EARLIEST, LATEST = 0, "latest"


class OptionRefused(ValueError):
    """An option is missing, unknown or makes no sense. Its text names the option and the cure."""


class Secret:
    """A token that no repr, traceback or log line shows."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret(***)"

    def reveal(self) -> str:
        return self._text


@dataclass(frozen=True, slots=True)
class Server:
    """Where the API is and how patient to be. Times in seconds."""

    url: str
    """`http(s)://HOST[:PORT][/PATH]/api/v1`"""
    token: Secret
    request_timeout: float = 120.0
    """Without a byte of an answer for so long, a connection counts as lost."""
    retry_timeout: float = 600.0
    """Overload and lost connections of one request are waited out for so long after its beginning;
    a try that begins within it may end up to `request_timeout` later."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Where MessageIds come from: a column, or a digest of `job_id` and the key columns."""

    column: str = ""
    key_columns: tuple[str, ...] = ()
    job_id: str = ""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    server: Server
    ids: Ids
    order_column: str
    batch_size: int
    """Lines of a request."""
    gzip: bool
    rejected_path: str
    """Empty: a refused row fails the job."""
    summary_path: str


@dataclass(frozen=True, slots=True)
class ReadOptions:
    server: Server
    feed: str
    page_size: int
    partitions: int
    start: int | str
    """Of the inbound feed: the position behind which it is read, LATEST, or a time in ISO 8601."""
    end: int | None
    """The position up to which it is read."""
    payloads: bool | None
    """Whether their content is read. None: not given."""
    filters: tuple[tuple[str, str], ...]
    """Query parameters."""
    per_trigger: int
    fail_on_data_loss: bool


class Options:
    """The options that were given, by names in any case. Raises OptionRefused for unknown ones."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._given = {name.lower(): value for name, value in given.items()}
        for name in self._given:
            if name not in map(str.lower, known):
                raise OptionRefused(_unknown(name, known))

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str, default: str = "") -> str:
        """Its value. Raises OptionRefused if it was given and is blank."""
        value = self._given.get(name.lower(), default).strip()
        if name in self and not value:
            raise OptionRefused(f"Option {name} is blank: give it a value or leave it out.")
        return value

    def number(self, name: str, default: int, *, least: int = 1, most: int = 10**18) -> int:
        text = self.text(name, str(default))
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise OptionRefused(f"Option {name} is {text!r}: a number from {least} to {most}.")
        return int(text)

    def one_of(self, name: str, choices: tuple[str, ...]) -> str:
        """The first choice unless given."""
        text = self.text(name, choices[0])
        if text not in choices:
            raise OptionRefused(f"Option {name} is {text!r}: one of {', '.join(choices)}.")
        return text

    def flag(self, name: str) -> bool:
        """True unless given."""
        return self.one_of(name, ("true", "false")) == "true"

    def columns(self, name: str) -> tuple[str, ...]:
        names = (
            tuple(column.strip() for column in self.text(name).split(",")) if name in self else ()
        )
        if not all(names) or len(set(names)) < len(names):
            raise OptionRefused(f"Option {name} is {self.text(name)!r}: columns, each once.")
        return names

    def time(self, name: str) -> str:
        """ISO 8601, with its offset from UTC."""
        text = self.text(name)
        try:
            aware = datetime.fromisoformat(text).tzinfo is not None
        except ValueError:
            aware = False
        if not aware:
            raise OptionRefused(f"Option {name} is {text!r}: a time as 2026-11-21T08:00:00+00:00.")
        return text


def write_options(given: Mapping[str, str], *, stream: bool) -> WriteOptions:
    """Raises OptionRefused."""
    options = Options(given, STREAM_WRITE if stream else BATCH_WRITE)
    return WriteOptions(
        server=_server(options),
        ids=_ids(options),
        order_column=options.text("orderColumn"),
        batch_size=options.number("batchSize", 1000, most=LINES_OF_A_REQUEST),
        gzip=options.one_of("compression", ("none", "gzip")) == "gzip",
        rejected_path=options.text("rejectedPath"),
        summary_path=options.text("summaryPath"),
    )


def read_options(given: Mapping[str, str], *, stream: bool) -> ReadOptions:
    """Raises OptionRefused."""
    options = Options(given, STREAM_READ if stream else READ)
    feed = options.one_of("feed", ("inbound",) if stream else ("inbound", "outbound"))
    for name in () if feed == "inbound" else _OF_INBOUND:
        if name in options:
            raise OptionRefused(f"Option {name} is not for the feed {feed}: leave it out.")
    return ReadOptions(
        server=_server(options),
        feed=feed,
        page_size=options.number("pageSize", 1000, most=1000),
        partitions=options.number("numPartitions", 8, most=10_000),
        start=_start(options, stream=stream),
        end=options.number("endingPosition", 0, least=0) if "endingPosition" in options else None,
        payloads=options.flag("payloads") if "payloads" in options else None,
        filters=tuple(_filters(options).items()),
        per_trigger=options.number("maxMessagesPerTrigger", 10_000, most=1_000_000),
        fail_on_data_loss=options.flag("failOnDataLoss"),
    )


def _start(options: Options, *, stream: bool) -> int | str:
    if "startingTimestamp" in options:
        if "startingPosition" in options:
            raise OptionRefused(
                "Options startingPosition and startingTimestamp are given: leave one out."
            )
        return options.time("startingTimestamp")
    text = options.text("startingPosition", "earliest")
    if text == "earliest":
        return EARLIEST
    if text != LATEST:
        return options.number("startingPosition", EARLIEST, least=0)
    if not stream:
        raise OptionRefused("Option startingPosition is latest: there a batch finds nothing.")
    return LATEST


def _filters(options: Options) -> dict[str, str]:
    names = _BATCH_FILTERS.items()
    texts = {parameter: options.text(name) for name, parameter in names if name in options}
    times = _TIMES.items()
    return texts | {parameter: options.time(name) for name, parameter in times if name in options}


def _server(options: Options) -> Server:
    return Server(
        url=_url(options.text("url")),
        token=_token(options),
        request_timeout=options.number("requestTimeout", 120, most=3600),
        retry_timeout=options.number("retryTimeout", 600, least=0, most=7 * 86_400),
    )


def _url(text: str) -> str:
    if not text:
        raise OptionRefused("Option url is missing: the address of the MSH, https://HOST:PORT.")
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise OptionRefused(f"Option url is no address: {error}.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OptionRefused(
            "Option url is no address: it is https://HOST:PORT or http://HOST:PORT."
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise OptionRefused("Option url holds more than an address: a token has its own option.")
    path = parts.path.rstrip("/").removesuffix(API)
    return f"{parts.scheme}://{parts.netloc}{path}{API}"


def _token(options: Options) -> Secret:
    """Read here, on the driver; executors get it with the task."""
    given = [name for name in ("token", "tokenEnv", "tokenFile") if name in options]
    if len(given) != 1:
        said = "Options " + " and ".join(given) + " are given" if given else "No token is given"
        raise OptionRefused(f"{said}: exactly one of token, tokenEnv, tokenFile.")
    name, value = given[0], options.text(given[0])
    # A reason does not show the value: it could be a token that was given to the wrong option.
    if name == "tokenEnv":
        origin, token = "the environment variable that it names", os.environ.get(value, "")
    elif name == "tokenFile":
        origin, token = "the first line of the file that it names", _first_line(value)
    else:
        origin, token = "it", value
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise OptionRefused(f"Option {name}: {origin} holds no token. `manage.py token` makes one.")
    return Secret(token)


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text().partition("\n")[0].strip()
    except (OSError, ValueError) as error:  # a file that is no text, a name that is none
        reason = getattr(error, "strerror", None) or "not text"
        raise OptionRefused(
            f"Option tokenFile: the file that it names cannot be read: {reason}."
        ) from None


def _ids(options: Options) -> Ids:
    column, keys = options.text("idColumn"), options.columns("keyColumns")
    job_id = options.text("jobId")
    if bool(column) == bool(keys):
        said = "Both idColumn and keyColumns are given" if column else "No MessageId"
        raise OptionRefused(
            f"{said}: give idColumn, or keyColumns with jobId. Without an id of its own that is"
            " the same in every attempt, a row that is tried again would be sent twice."
        )
    if keys and not job_id:
        raise OptionRefused("Option jobId is missing: with keyColumns it makes the MessageIds.")
    if column and job_id:
        raise OptionRefused("Option jobId is for keyColumns: with idColumn leave it out.")
    if len(job_id) > 100 or not job_id.isascii() or not job_id.replace("-", "").isprintable():
        raise OptionRefused("Option jobId: up to 100 printable ASCII characters.")
    return Ids(column, keys, job_id)


def _unknown(name: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(name, [one.lower() for one in known], n=1)
    hint = next((one for one in known if close and one.lower() == close[0]), None)
    cure = f"do you mean {hint}?" if hint else f"there are {', '.join(known)}."
    return f"Option {name} is unknown: {cure}"
