"""One sender's bodies never take the place of another's."""

from msh.web.limits import Limits
from msh.web.senders import Sender
from msh.web.uploads import Uploads

LIMITS = Limits(uploads=8, known=3, unknown=2)
ACME, OTHER = Sender("partner 1", known=True), Sender("partner 2", known=True)


class Begun:
    """Counts the bodies that were begun, by sender."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.uploads = Uploads(limits)
        self.order: list[Sender] = []

    def start(self, sender: Sender, times: int = 1) -> None:
        for _ in range(times):
            self.uploads.start(sender, lambda: self.order.append(sender))


def test_a_sender_has_its_share_and_waits_for_more() -> None:
    begun = Begun()
    begun.start(ACME, 5)
    assert begun.order == [ACME] * 3
    begun.uploads.end(ACME)
    assert begun.order == [ACME] * 4


def test_waiting_upload_does_not_delay_others() -> None:
    begun = Begun()
    begun.start(ACME, 10)
    begun.start(OTHER, 2)
    assert begun.order[3:] == [OTHER] * 2


def test_unknown_senders_together_have_half() -> None:
    begun = Begun()
    for number in range(10):
        begun.start(Sender(f"address {number}"))
    assert len(begun.order) == 4
    begun.start(ACME)
    assert begun.order[-1] == ACME


def test_when_all_is_taken_the_senders_follow_in_turn() -> None:
    begun = Begun(Limits(uploads=1, known=3, unknown=1))
    begun.start(ACME, 3)
    begun.start(OTHER, 2)
    for sender in (ACME, ACME, OTHER, ACME):
        begun.uploads.end(sender)
    assert sorted(begun.order) == sorted([ACME] * 3 + [OTHER] * 2)


def test_disconnected_client_leaves_the_queue() -> None:
    uploads = Uploads(LIMITS)
    begun: list[str] = []

    def first() -> None:
        begun.append("first")

    def second() -> None:
        begun.append("second")

    for _ in range(3):
        uploads.start(ACME, lambda: None)
    uploads.start(ACME, first)
    uploads.start(ACME, second)
    uploads.forget(ACME, first)
    uploads.end(ACME)
    assert begun == ["second"]
