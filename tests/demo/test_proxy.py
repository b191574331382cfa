import pytest

from demo.faults import Decision, Ending, Fault
from tests.demo.link import LANE, Rows, link, message, runs, until


@runs
async def test_a_request_that_passes_is_answered_and_logged() -> None:
    async with link() as between:
        body = message("m1", 7)
        assert await between.post(body) == 204

        assert between.receiver.bodies == [body]
        (record,) = between.records
        assert record["direction"] == "a>b"
        assert record["pair"] == " > ".join(LANE)
        assert (record["kind"], record["message_id"], record["sequence_number"]) == (
            "Normal",
            "m1",
            7,
        )
        assert (record["fault"], record["answered"]) == ("pass", 204)
        assert record["copies"] == [{"at": record["at"] + 1, "status": 204}]


@runs
async def test_connection_is_kept_for_several_requests() -> None:
    async with link() as between:
        client = await between.connect()
        assert [await client.post(message(f"m{n}", n)) for n in (1, 2)] == [204, 204]
        await client.hang_up()
        assert len(between.receiver.bodies) == 2


@pytest.mark.parametrize("ending", [Ending.CLOSED, Ending.RESET])
@runs
async def test_dropped_request_is_not_passed_on(ending: Ending) -> None:
    async with link(Decision(Fault.DROP_REQUEST, ending)) as between:
        client = await between.connect()
        client.send(message())
        if ending is Ending.RESET:
            with pytest.raises(ConnectionResetError):
                await client.status()
        else:
            assert await client.status() is None
        await client.hang_up()

        assert between.receiver.bodies == []
        (record,) = between.records
        assert (record["fault"], record["copies"]) == ("drop-request", [])
        assert record["answered"] == ending


@runs
async def test_silence_lasts_until_the_client_gives_up() -> None:
    async with link(Decision(Fault.DROP_REQUEST, Ending.SILENCE)) as between:
        client = await between.connect()
        client.send(message("m1"))
        assert await between.post(message("m2", 2)) == 204
        assert [record["message_id"] for record in between.records] == ["m2"]

        await client.hang_up()
        await until(lambda: len(between.records) == 2)
        assert between.records[1]["answered"] == "silence"


@runs
async def test_a_dropped_response_leaves_the_request_delivered() -> None:
    async with link(Decision(Fault.DROP_RESPONSE)) as between:
        assert await between.post(message()) is None
        assert len(between.receiver.bodies) == 1
        assert between.records[0]["copies"][0]["status"] == 204
        assert between.records[0]["answered"] == "closed"


@runs
async def test_a_duplicate_arrives_twice_one_after_the_other() -> None:
    async with link(Decision(Fault.DUPLICATE)) as between:
        assert await between.post(message()) == 204
        assert between.receiver.bodies == [message(), message()]
        assert [copy["status"] for copy in between.records[0]["copies"]] == [204, 204]


@runs
async def test_a_concurrent_duplicate_arrives_twice_before_any_answer() -> None:
    async with link(Decision(Fault.DUPLICATE, concurrent=True)) as between:
        between.receiver.gate.clear()
        client = await between.connect()
        client.send(message())
        await until(lambda: len(between.receiver.bodies) == 2)
        between.receiver.gate.set()
        assert await client.status() == 204
        await client.hang_up()


@runs
async def test_a_delayed_request_is_overtaken() -> None:
    async with link(Decision(Fault.DELAY, seconds=0.3)) as between:
        client = await between.connect()
        client.send(message("m1"))
        await until(lambda: between.proxy.faults["delay"])
        assert await between.post(message("m2", 2)) == 204
        assert await client.status() == 204
        await client.hang_up()
        assert between.receiver.bodies == [message("m2", 2), message("m1")]


@runs
async def test_a_delayed_request_is_transmitted_after_its_client_has_gone() -> None:
    async with link(Decision(Fault.DELAY, seconds=0.1)) as between:
        client = await between.connect()
        client.send(message())
        await until(lambda: between.proxy.faults["delay"])
        await client.hang_up()
        await until(lambda: between.receiver.bodies)


@runs
async def test_a_held_copy_follows_after_later_messages_of_its_lane() -> None:
    async with link(Decision(Fault.REORDER, later=2)) as between:
        assert await between.post(message("m1", 1)) == 204
        assert await between.post(message("m2", 2)) == 204
        assert await between.post(message("m2", 2)) == 204  # a retry is no later message
        assert between.proxy.holding == 1

        assert await between.post(message("m3", 3)) == 204
        await until(lambda: not between.proxy.holding)
        assert between.receiver.bodies.count(message("m1", 1)) == 2
        (record,) = [one for one in between.records if one["fault"] == "reorder"]
        first, second = record["copies"]
        assert first["at"] < second["at"]
        assert second["at"] > max(one["at"] for one in between.records)


@runs
async def test_a_withheld_original_leaves_its_client_without_an_answer() -> None:
    async with link(Decision(Fault.REORDER, withheld=True)) as between:
        assert await between.post(message("m1", 1)) is None
        assert between.receiver.bodies == []
        assert await between.post(message("m2", 2)) == 204
        await until(lambda: len(between.receiver.bodies) == 2)
        assert between.receiver.bodies == [message("m2", 2), message("m1", 1)]


@runs
async def test_held_request_goes_when_released() -> None:
    async with link(Decision(Fault.REORDER, later=4)) as between:
        await between.post(message())
        between.proxy.release()
        await until(lambda: len(between.receiver.bodies) == 2)
        await until(lambda: not between.proxy.holding)


@runs
async def test_the_proxy_answers_503_by_itself() -> None:
    async with link(Decision(Fault.UNAVAILABLE)) as between:
        assert await between.post(message()) == 503
        assert between.receiver.bodies == []
        assert (between.records[0]["copies"], between.records[0]["answered"]) == ([], 503)


@runs
async def test_a_reset_connection() -> None:
    async with link(Decision(Fault.RESET)) as between:
        client = await between.connect()
        client.send(message())
        with pytest.raises(ConnectionResetError):
            await client.status()
        await client.hang_up()
        assert between.receiver.bodies == []
        assert between.records[0]["answered"] == "reset"


@runs
async def test_a_target_that_is_down_is_a_bad_gateway() -> None:
    async with link() as between:
        between.receiver_server.close()
        await between.receiver_server.wait_closed()
        assert await between.post(message()) == 502
        assert between.records[0]["copies"][0]["status"] is None


@runs
async def test_an_ack_is_judged_at_first_sight_only() -> None:
    rows = Rows("stored")
    async with link(rows=rows) as between:
        for message_id, ref in (("k1", "stored"), ("k2", "stored"), ("k3", "missing")):
            assert await between.post(message(message_id, kind="Acknowledgement", ref=ref)) == 204
        assert [record["row_found"] for record in between.records] == [True, None, False]
        assert rows.asked == ["stored", "missing"]
        assert {record["pair"] for record in between.records} == {" > ".join(LANE)}


@runs
async def test_an_ack_that_cannot_be_judged_is_not_passed_on() -> None:
    async with link(rows=Rows("stored", failures=1)) as between:
        ack = message("k1", kind="Acknowledgement", ref="stored")
        assert [await between.post(ack), await between.post(ack)] == [503, 204]
        assert between.receiver.bodies == [ack]
        assert [record["row_found"] for record in between.records] == [None, True]


@runs
async def test_unreadable_request_is_passed_on_unchanged() -> None:
    async with link() as between:
        assert await between.post(b"no ebXML") == 204
        assert between.records[0]["kind"] == "unreadable"


@pytest.mark.parametrize("fault", [Fault.PASS, Fault.DROP_RESPONSE, Fault.DUPLICATE, Fault.REORDER])
@runs
async def test_the_log_has_a_copy_before_it_is_passed_on(fault: Fault) -> None:
    """Else a run that is cut short knows nothing of an Ack that the sender has acted on."""
    rows = Rows("m1")
    async with link(Decision(fault, Ending.SILENCE), rows=rows) as between:
        between.receiver.gate.clear()
        client = await between.connect()
        client.send(message("k1", kind="Acknowledgement", ref="m1"))
        await until(lambda: between.receiver.bodies)
        line = between.lines[-1]
        assert (line["ref_to_message_id"], line["row_found"], line["ended"]) == ("m1", True, False)
        assert [copy["status"] for copy in line["copies"]] == [None]
        between.receiver.gate.set()
        await client.hang_up()
        between.proxy.release()
        await until(lambda: between.records)


@runs
async def test_the_log_has_a_request_that_is_held_back() -> None:
    async with link(Decision(Fault.REORDER, withheld=True)) as between:
        assert await between.post(message("m1")) is None
        (line,) = between.lines
        assert (line["message_id"], line["copies"], line["ended"]) == ("m1", [], False)
