from demo.pairs import ENDS, Pair, Timing, make_pairs, make_tokens, setup_of


def test_both_setups_describe_the_same_pairs_from_their_own_side() -> None:
    pairs = make_pairs(3)
    tokens = make_tokens(pairs)
    ours = setup_of("a", pairs, {"b": 9001}, tokens)["partners"]
    theirs = setup_of("b", pairs, {"a": 9002}, tokens)["partners"]

    for here, there in zip(ours, theirs, strict=True):
        assert here["name"] == there["name"]
        assert (here["our_uri"], here["uri"]) == (there["uri"], there["our_uri"])
        assert (here["token_in"], here["token_out"]) == (there["token_out"], there["token_in"])
        (our_tpa,), (their_tpa,) = here["agreements"], there["agreements"]
        assert our_tpa["tpa_id"] == their_tpa["tpa_id"]
        assert our_tpa["our_party"] == their_tpa["their_party"]
        assert our_tpa["their_party"] == their_tpa["our_party"]


def test_addresses_lead_through_the_proxy_and_identities_do_not() -> None:
    pairs = make_pairs(2)
    (first, second) = setup_of("a", pairs, {"b": 9001}, make_tokens(pairs))["partners"]
    assert first["address"] == "http://127.0.0.1:9001/ebxml/pair-1/"
    assert second["address"] == "http://127.0.0.1:9001/ebxml/pair-2/"
    assert "9001" not in first["uri"] + first["our_uri"]


def test_timing_is_in_the_agreements_of_both_sides() -> None:
    pairs = [Pair("slow", ENDS, timing=Timing(timeout=5, retries=10))]
    for here, there in (ENDS, ENDS[::-1]):
        (partner,) = setup_of(here, pairs, {there: 9001}, make_tokens(pairs))["partners"]
        (terms,) = partner["agreements"]
        assert (terms["timeout"], terms["retries"], terms["retry_interval"]) == (5, 10, 1)


def test_directions_alternate() -> None:
    assert [(pair.sender, pair.receiver) for pair in make_pairs(3)] == [
        ("a", "b"),
        ("b", "a"),
        ("a", "b"),
    ]


def test_no_two_pairs_share_a_lane() -> None:
    assert len({lane for pair in make_pairs(8, 1) for lane in pair.lanes}) == 16


def test_a_router_knows_both_neighbours_and_sends_on_to_the_receiver() -> None:
    pairs = make_pairs(2, 1)
    setup = setup_of("c", pairs, {"a": 9001, "b": 9002}, make_tokens(pairs), "end-to-end")

    assert [(partner["name"], partner["uri"]) for partner in setup["partners"]] == [
        ("pair-1-a", "http://a.demo.example/ebxml/pair-1/"),
        ("pair-1-b", "http://b.demo.example/ebxml/pair-1/"),
        ("pair-2-b", "http://b.demo.example/ebxml/pair-2/"),
        ("pair-2-a", "http://a.demo.example/ebxml/pair-2/"),
    ]
    assert setup["routes"] == [
        {"to_party": "b-pair-1", "partner": "pair-1-b", "mode": "end-to-end"},
        {"to_party": "a-pair-2", "partner": "pair-2-a", "mode": "end-to-end"},
    ]
    towards_sender, towards_receiver = (
        partner["agreements"][0] for partner in setup["partners"][:2]
    )
    assert (towards_sender["our_party"], towards_sender["their_party"]) == ("b-pair-1", "a-pair-1")
    assert (towards_receiver["our_party"], towards_receiver["their_party"]) == (
        "a-pair-1",
        "b-pair-1",
    )
