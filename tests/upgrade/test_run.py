"""What `make upgrade-test` is made of."""

from msh.models import InboundMessage, OutboundMessage
from tests.upgrade.answers import Answer, table
from tests.upgrade.filling import fill


def test_messages_of_the_past(older: str) -> None:
    fill(200)
    assert OutboundMessage.objects.filter(state="acknowledged").count() == 100
    assert InboundMessage.objects.filter(state="delivered").count() == 100


def test_answer_counts_for_the_part_in_which_it_came() -> None:
    begins = {"before": 0.0, "migrating": 10.0}
    answers = [Answer("GET", 1.0, 0.5), Answer("GET", 9.5, 1.5), Answer("GET", 11.0, 0.1)]
    shown = table(answers, begins)["GET"]
    assert shown["before"]["answers"] == 1
    assert shown["migrating"]["answers"] == 2
    assert shown["migrating"]["slowest"] == 1.5
