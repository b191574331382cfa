"""The audit's judgements: each by its name, of what was found."""

from typing import Any

from .options import Options
from .witness import Witness


def judge(options: Options, found: dict[str, Any]) -> dict[str, bool]:
    rows, waves = options.rows, {name: len(numbers) for name, numbers in options.waves.items()}
    again, refused, streams = found["second_load"], found["refused_row"], found["streams"]
    read, retention = found["read_all"], found["retention"]
    behind = options.behind_refused
    sent = waves["ordered"] - 1 - behind
    limit = options.per_trigger
    full = [limit] * (rows // limit) + ([rows % limit] if rows % limit else [])
    return {
        "each_order_once_in_order": found["witness"] == Witness.of_all(rows),
        "tasks_killed": len(found["tasks_killed_when_so_many_were_in"]) == options.kills,
        "load_again_sends_nothing": (again["accepted"], again["known"]) == (0, waves["load"]),
        "extracted_and_reconciled": found["reconcile"]["good"]
        and found["extract"]["messages"] == rows == found["reconcile"]["received"],
        "nothing_sent_behind_a_refused_row": _counts(refused["refused"])
        == {"accepted": sent, "known": 0, "rejected": 1, "not_sent": behind}
        and refused["stored"] == sent,
        "corrected_row_and_those_behind_it_sent": _counts(refused["corrected"])
        == {"accepted": 1 + behind, "known": sent, "rejected": 0, "not_sent": 0},
        "driver_killed": len(streams["driver_killed_when_so_many_were_in"]) == 1,
        "two_streams_send_each_row": not any(streams["failed"].values())
        and all(_sent_all(streams[name], waves["stream"]) for name in ("sink", "micro_batches")),
        "available_now_ends": not any(read["failed"].values())
        and sum(read["micro_batches"]["feed"]) == rows,
        "micro_batches_within_their_limit": max(read["micro_batches"]["feed"]) <= limit
        and sorted(read["micro_batches"]["fresh"]) == sorted(full),
        "retention_before_a_reader_is_an_error": 0 < retention["left"] < retention["unread"]
        and "DataLost" in retention["failed"]
        and retention["read_before_it_failed"] == 0,
        "reader_goes_on_if_told": not retention["failed_without_failOnDataLoss"]
        and retention["read"] == retention["left"],
        "connect_extracts_the_same": found["extract_over_connect"]["messages"] == rows,
    }


def _counts(summary: dict[str, Any]) -> dict[str, int]:
    return {name: summary[name] for name in ("accepted", "known", "rejected", "not_sent")}


def _sent_all(counted: dict[str, int], rows: int) -> bool:
    """A micro-batch that was run again finds known what it had sent; so does the other query."""
    return counted["accepted"] + counted["known"] == rows and not counted["rejected"]
