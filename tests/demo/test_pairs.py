from demo.pairs import make_pairs, make_tokens, setup_of


def test_both_setups_describe_the_same_pairs_from_their_own_side() -> None:
    pairs = make_pairs(3)
    tokens = make_tokens(pairs)
    ours = setup_of("a", pairs, 9001, tokens)["partners"]
    theirs = setup_of("b", pairs, 9002, tokens)["partners"]

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
    (first, second) = setup_of("a", pairs, 9001, make_tokens(pairs))["partners"]
    assert first["address"] == "http://127.0.0.1:9001/ebxml/pair-1/"
    assert second["address"] == "http://127.0.0.1:9001/ebxml/pair-2/"
    assert "9001" not in first["uri"] + first["our_uri"]


def test_directions_alternate() -> None:
    assert [(pair.sender, pair.receiver) for pair in make_pairs(3)] == [
        ("a", "b"),
        ("b", "a"),
        ("a", "b"),
    ]


def test_no_two_pairs_share_a_lane() -> None:
    assert len({pair.lane for pair in make_pairs(8)}) == 8
