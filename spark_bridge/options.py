"""The options of format `ebxml`, as text from Spark to checked values. Read on the driver only."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Literal, TypeVar

import pyspark

from msh_client import Secret, Server, TokenEnv, TokenFile, api_url
from msh_client.server import checked_token, tls_context

VERSION = "0.9.0"
USER_AGENT = f"msh-spark/{VERSION} Spark/{pyspark.__version__} Python/{platform.python_version()}"
LINES_OF_A_REQUEST = 5_000
"""The most that `POST messages/bulk` takes."""

_TLS = ("caFile", "clientCertificate", "clientKey")
_TOKEN = ("token", "tokenEnv", "tokenFile")
_CONNECTION = ("url", *_TOKEN, *_TLS, "requestTimeout", "retryTimeout")
_IDS = ("idColumn", "keyColumns", "jobId")
_ORDER = ("orderColumn", "orderChecked", "onRefused")
_SENDING = (*_ORDER, "onClosed", "batchSize", "compression", "rejectedPath")
BATCH_WRITE = (*_CONNECTION, *_IDS, *_SENDING, "summaryPath")
STREAM_WRITE = (*_CONNECTION, *_IDS, *_SENDING, "metricsPath", "checkpointLocation")
_READING = (*_CONNECTION, "feed", "pageSize", "payloads")
_FILTERS = {
    "partner": "partner",
    "tpaId": "tpa_id",
    "serviceInterface": "service_interface",
    "serviceType": "service_type",
    "action": "action",
    "kind": "kind",
}
"""Option → query parameter. The others change with time, so that a stream has none of them."""
_BATCH_FILTERS = {**_FILTERS, "state": "state"}
_TIMES = {
    "since": "since",
    "until": "until",
    "endedSince": "ended_since",
    "endedUntil": "ended_until",
}
_STARTING = ("startingPosition", "startingTimestamp", "failOnDataLoss")
_BY_POSITION = (*_STARTING, "endingPosition")
_FEEDS = ("inbound", "outbound", "events")
_ONLY_OF = {
    **dict.fromkeys(_BY_POSITION, ("inbound", "events")),
    **dict.fromkeys(("payloads", "state", "since", "until"), ("inbound", "outbound")),
    **dict.fromkeys(("endedSince", "endedUntil"), ("outbound",)),
    "kind": ("events",),
}
"""Option → the feeds that have it."""
READ = (*_READING, "numPartitions", *_BATCH_FILTERS, *_TIMES, *_BY_POSITION)
STREAM_READ = (*_READING, "maxMessagesPerTrigger", *_FILTERS, *_STARTING)
EARLIEST, LATEST = 0, "latest"


Choice = TypeVar("Choice", bound=str)


class OptionRefused(ValueError):
    """An option is missing, unknown or makes no sense. Its text names the option and the cure."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Where MessageIds come from: a column, or a digest of `job_id` and the key columns."""

    column: str = ""
    key_columns: tuple[str, ...] = ()
    job_id: str = ""


OnClosed = Literal["wait", "setAside", "fail"]
"""What becomes of rows whose partner an operator has closed to applications."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    server: Server
    ids: Ids
    order_column: str
    order_checked: bool
    """The rows come from `ordered_by_pair`, and say so."""
    stop: bool
    """Behind a refused row of a pair no further row of it is sent."""
    on_closed: OnClosed
    batch_size: int
    """Lines of a request."""
    gzip: bool
    rejected_path: str
    """Empty: a refused row fails the job."""
    summary_path: str
    metrics_path: str


@dataclass(frozen=True, slots=True)
class ReadOptions:
    server: Server
    feed: str
    page_size: int
    partitions: int
    start: int | str
    """The position behind which a feed is read, LATEST, or a time in ISO 8601."""
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

    def one_of(self, name: str, choices: tuple[Choice, ...]) -> Choice:
        """The first choice unless given."""
        text = self.text(name, choices[0])
        for choice in choices:
            if text == choice:
                return choice
        raise OptionRefused(f"Option {name} is {text!r}: one of {', '.join(choices)}.")

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
    for name in ("orderChecked", "onRefused"):
        if name in options and "orderColumn" not in options:
            raise OptionRefused(f"Option {name} is for orderColumn: without it leave {name} out.")
    on_closed: OnClosed = options.one_of("onClosed", ("wait", "setAside", "fail"))
    if on_closed == "setAside" and "rejectedPath" not in options:
        raise OptionRefused("Option onClosed is setAside: option rejectedPath says where.")
    stops = options.one_of("onRefused", ("stop", "setAside")) == "stop"
    return WriteOptions(
        server=_server(options),
        ids=_ids(options),
        order_column=options.text("orderColumn"),
        order_checked=options.one_of("orderChecked", ("true", "false")) == "true",
        stop=stops and "orderColumn" in options,
        on_closed=on_closed,
        batch_size=options.number("batchSize", 1000, most=LINES_OF_A_REQUEST),
        gzip=options.one_of("compression", ("none", "gzip")) == "gzip",
        rejected_path=options.text("rejectedPath"),
        summary_path=options.text("summaryPath"),
        metrics_path=options.text("metricsPath"),
    )


def read_options(given: Mapping[str, str], *, stream: bool) -> ReadOptions:
    """Raises OptionRefused."""
    options = Options(given, STREAM_READ if stream else READ)
    feed = options.one_of("feed", ("inbound", "events") if stream else _FEEDS)
    for name, feeds in _ONLY_OF.items():
        if name in options and feed not in feeds:
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
    server = Server(
        url=_url(options),
        token=_token(options),
        request_timeout=options.number("requestTimeout", 120, most=3600),
        retry_timeout=options.number("retryTimeout", 600, least=0, most=7 * 86_400),
        ca_certificates=_file(options, "caFile"),
        client_certificate=_client_certificate(options),
        user_agent=USER_AGENT,
    )
    if given := [name for name in _TLS if name in options]:
        try:
            tls_context(server)
        except (OSError, ValueError) as error:
            raise OptionRefused(f"Option {' or '.join(given)} cannot be used: {error}.") from None
    return server


def _url(options: Options) -> str:
    if "url" not in options:
        raise OptionRefused("Option url is missing: the address of the MSH, https://HOST:PORT.")
    try:
        return api_url(options.text("url"))
    except ValueError as error:
        raise OptionRefused(f"Option url {error}") from None


def _token(options: Options) -> Secret:
    """Read here, on the driver; executors get it with the task."""
    given = [name for name in _TOKEN if name in options]
    if len(given) != 1:
        said = "Options " + " and ".join(given) + " are given" if given else "No token is given"
        raise OptionRefused(f"{said}: exactly one of token, tokenEnv, tokenFile.")
    name, value = given[0], options.text(given[0])
    try:
        if name == "token":
            return Secret(checked_token(value, "it"))
        read = (TokenEnv(value) if name == "tokenEnv" else TokenFile(value)).read
        return Secret(read(), read)
    except ValueError as error:
        raise OptionRefused(f"Option {name}: {error}") from None


def _client_certificate(options: Options) -> Secret | None:
    """Certificate and key may be in one file."""
    if "clientKey" in options and "clientCertificate" not in options:
        raise OptionRefused("Option clientKey is for clientCertificate: give both.")
    files = _file(options, "clientCertificate"), _file(options, "clientKey")
    text = "\n".join(files)  # the first may lack a newline at its end
    return Secret(text) if any(files) else None


def _file(options: Options, name: str) -> str:
    """The text of a file of the driver; executors get it with the task."""
    if name not in options:
        return ""
    try:
        return Path(options.text(name)).read_text()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise OptionRefused(
            f"Option {name}: {options.text(name)} cannot be read: {reason}."
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
