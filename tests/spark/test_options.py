"""Options are checked on the driver, and refused by name."""

from pathlib import Path

import pytest

from msh_client import Secret
from spark_bridge.options import (
    Ids,
    OptionRefused,
    read_options,
    write_options,
)
from tests.keys import new_key, pem_of

GIVEN = {"url": "http://127.0.0.1:8000", "token": "t0ken"}
WRITE = GIVEN | {"idColumn": "id"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batchsize": "0"}, "Option batchSize is '0': a number from 1 to 5000"),
        ({"batchSize": "many"}, "Option batchSize is 'many'"),
        ({"batchSize": "٣"}, "Option batchSize is '٣'"),
        ({"compression": "zip"}, "Option compression is 'zip': one of none, gzip"),
        ({"rejectedPaths": "x"}, "Option rejectedpaths is unknown: do you mean rejectedPath?"),
        ({"colour": "red"}, "Option colour is unknown: there are url, token, "),
        ({"startingPosition": "1"}, "Option startingposition is unknown"),
        ({"jobId": "monday"}, "Option jobId is for keyColumns"),
        ({"keyColumns": "a,b", "jobId": "j"}, "Both idColumn and keyColumns are given"),
        ({"rejectedPath": " "}, "Option rejectedPath is blank"),
        ({"tokenEnv": "NAME"}, "Options token and tokenEnv are given: exactly one"),
        ({"url": "ftp://host"}, "Option url is no address"),
        ({"url": "http://host:port"}, "Option url is no address"),
        ({"url": "http://me:pw@host"}, "Option url holds more than an address"),
        ({"token": "to ken"}, "Option token: it holds no token"),
        ({"onClosed": "setAside"}, "Option onClosed is setAside: option rejectedPath says where"),
        ({"onClosed": "skip"}, "Option onClosed is 'skip': one of wait, setAside, fail"),
        ({"onRefused": "stop"}, "Option onRefused is for orderColumn: without it leave"),
        ({"orderChecked": "false"}, "Option orderChecked is for orderColumn"),
        ({"clientKey": "key.pem"}, "Option clientKey is for clientCertificate: give both"),
        ({"caFile": "/nowhere/ca.pem"}, "Option caFile: /nowhere/ca.pem cannot be read: No such"),
    ],
)
def test_writing_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        write_options(WRITE | options, stream=False)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"feed": "sideways"}, "Option feed is 'sideways': one of inbound, outbound"),
        ({"endedSince": "2026-11-21T08:00:00Z"}, "Option endedSince is not for the feed inbound"),
        ({"feed": "events", "payloads": "true"}, "Option payloads is not for the feed events"),
        ({"feed": "events", "state": "queued"}, "Option state is not for the feed events"),
        ({"kind": "failed"}, "Option kind is not for the feed inbound"),
        ({"feed": "outbound", "startingPosition": "1"}, "Option startingPosition is not for the"),
        ({"startingPosition": "latest"}, "Option startingPosition is latest: there a batch finds"),
        ({"startingPosition": "last"}, "Option startingPosition is 'last': a number from 0 to"),
        (
            {"startingPosition": "1", "startingTimestamp": "2026-11-21T08:00:00Z"},
            "Options startingPosition and startingTimestamp are given: leave one out",
        ),
        ({"startingTimestamp": "monday"}, "Option startingTimestamp is 'monday': a time as 2026-"),
        ({"failOnDataLoss": "no"}, "Option failOnDataLoss is 'no': one of true, false"),
        ({"feed": "outbound", "since": "monday"}, "Option since is 'monday': a time as 2026-"),
        ({"feed": "outbound", "until": "2026-11-21T08:00:00"}, "Option until is '2026-11-21T0"),
        ({"idColumn": "id"}, "Option idcolumn is unknown"),
    ],
)
def test_reading_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        read_options(GIVEN | options, stream=False)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "No MessageId: give idColumn, or keyColumns with jobId"),
        ({"keyColumns": "a"}, "Option jobId is missing"),
        ({"keyColumns": "a,,b", "jobId": "j"}, "Option keyColumns is 'a,,b': columns, each once"),
        ({"keyColumns": "a,a", "jobId": "j"}, "Option keyColumns is 'a,a': columns, each once"),
        ({"keyColumns": "a", "jobId": "j" * 101}, "Option jobId: up to 100"),
    ],
)
def test_without_ids_that_stay_nothing_is_written(options: dict[str, str], said: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        write_options(GIVEN | options, stream=True)
    assert str(refused.value).startswith(said)


def test_ids_from_keys() -> None:
    options = write_options(GIVEN | {"keycolumns": "a, b", "JOBID": "j"}, stream=False)
    assert options.ids == Ids(key_columns=("a", "b"), job_id="j")


@pytest.mark.parametrize("given", ["http://host:1/", "http://host:1/api/v1", "http://host:1"])
def test_address(given: str) -> None:
    assert read_options(GIVEN | {"url": given}, stream=False).server.url == "http://host:1/api/v1"


def test_token_from_environment_or_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    url = {"url": GIVEN["url"]}
    monkeypatch.setenv("TOKEN_OF_TEST", "from-environment")
    server = read_options(url | {"tokenEnv": "TOKEN_OF_TEST"}, stream=False).server
    assert server.token.reveal() == "from-environment"
    file = tmp_path / "token"
    file.write_text("from-file\nof Monday\n")
    server = read_options(url | {"tokenFile": str(file)}, stream=False).server
    assert server.token.reveal() == "from-file"
    monkeypatch.delenv("TOKEN_OF_TEST")
    file.unlink()
    with pytest.raises(OptionRefused, match="tokenEnv: the environment variable that it names"):
        read_options(url | {"tokenEnv": "TOKEN_OF_TEST"}, stream=False)
    with pytest.raises(OptionRefused, match="the file that it names cannot be read: No such file"):
        read_options(url | {"tokenFile": str(file)}, stream=False)
    with pytest.raises(OptionRefused, match="No token is given"):
        read_options(url, stream=False)


def test_stream_has_no_filter_of_what_changes() -> None:
    for name in ("state", "since", "endingPosition", "numPartitions"):
        with pytest.raises(OptionRefused, match=f"Option {name.lower()} is unknown"):
            read_options(GIVEN | {name: "1"}, stream=True)
    given = {"startingPosition": "latest", "serviceInterface": "Orders", "serviceType": "string"}
    options = read_options(GIVEN | given, stream=True)
    filters = (("service_interface", "Orders"), ("service_type", "string"))
    assert (options.start, options.filters) == ("latest", filters)


@pytest.mark.parametrize("option", ["tokenEnv", "tokenFile"])
def test_token_in_the_wrong_option_is_not_shown(option: str) -> None:
    with pytest.raises(OptionRefused) as refused:
        read_options({"url": GIVEN["url"], option: "s3cret"}, stream=False)
    assert str(refused.value).startswith(f"Option {option}: the ")
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("option", ["caFile", "clientCertificate"])
def test_certificates_are_tried_on_the_driver(option: str, tmp_path: Path) -> None:
    file = tmp_path / "file.pem"
    file.write_text("no certificate")
    with pytest.raises(OptionRefused) as refused:
        write_options(WRITE | {option: str(file)}, stream=False)
    assert str(refused.value).startswith(f"Option {option} cannot be used: ")


def test_certificate_without_a_newline_at_its_end_and_its_key(tmp_path: Path) -> None:
    client = new_key("client")
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    certificate.write_text(pem_of(client).strip())
    key.write_bytes(client.private)
    files = {"clientCertificate": str(certificate), "clientKey": str(key)}
    server = read_options(GIVEN | files, stream=False).server
    assert server.client_certificate is not None
    assert server.client_certificate.reveal() == f"{pem_of(client)}\n{client.private.decode()}"


def test_what_goes_behind_a_refused_row() -> None:
    """Nothing of its pair, where there is an order; unless told otherwise."""
    ordered = WRITE | {"orderColumn": "n"}
    assert write_options(ordered, stream=False).stop
    assert not write_options(ordered | {"onRefused": "setAside"}, stream=False).stop
    assert not write_options(WRITE, stream=False).stop


def test_token_is_not_shown() -> None:
    options = write_options(WRITE, stream=False)
    assert "t0ken" not in repr(options)
    assert "t0ken" not in f"{Secret('t0ken')}"
