"""The CPAs of other products, imported as each of their parties. Nothing of them is in here."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import transaction
from lxml import etree

from msh.flows.operations.cpas import CpaRefused, Plan, Wanted, carry_out, made_of, plan
from msh.protocol.ebms.cpa import Cpa
from msh.store.history import Actor
from msh.wire.cpa import parties, read
from msh.wire.cpa_writer import compose
from partners.export import exported
from partners.models import Agreement, CpaDocument, Partner
from tests.keys import new_key, pem_of

pytestmark = pytest.mark.django_db

TODAY = datetime(2026, 11, 28, tzinfo=UTC)
TESTER = Actor("tester", "a test")
NAMED_ONLY = {
    f"hermes/cpa/ebIOT-CPAT{test}.{way}.xml"
    for test in ("4-2", "4-3", "4-4")
    for way in ("CECID.I3T", "I3T.CECID")
}
"""Signed, and they have the names of the certificates only."""


def files(corpus: Path) -> Iterator[tuple[str, bytes]]:
    with (corpus / "sources.csv").open(newline="") as listed:
        for row in csv.DictReader(listed):
            if row["what"].startswith("CPA 2.0"):
                yield row["file"], (corpus / row["file"]).read_bytes()


def each(corpus: Path) -> Iterator[tuple[str, bytes, Wanted]]:
    """As each of its parties."""
    for name, content in files(corpus):
        for party in parties(content):
            yield name, content, Wanted(we=party.party_ids[0].value)


def as_read(content: bytes, wanted: Wanted) -> Cpa:
    ours = (one for one in parties(content) if one.party_ids[0].value == wanted.we)
    return read(content, next(ours))


def in_force(content: bytes, wanted: Wanted) -> Plan:
    """As of the day after it begins."""
    later = Wanted(wanted.we, certificate=pem_of(new_key("theirs")), not_yet=True)
    return plan(content, later, as_read(content, wanted).start + timedelta(days=1))


@pytest.mark.requirement("EB-195", "EB-198", "EB-201")
def test_all_are_imported_as_both_parties(corpus: Path) -> None:
    count = 0
    for name, content, wanted in each(corpus):
        count += 1
        with transaction.atomic():
            planned = in_force(content, wanted)
            carry_out(planned, TESTER)
            agreement = Agreement.objects.get()
            rows = sorted(
                (one.direction, one.service, one.agreed.service_type, one.action)
                for one in agreement.channels.all()
            )
            actions = sorted(
                ("out" if one.is_ours else "in", one.service, one.service_type, one.action)
                for one in planned.cpa.actions
            )
            assert rows == actions, name
            assert bytes(CpaDocument.objects.get().content) == content, name
            again = in_force(content, wanted)
            assert again.is_kept, name
            assert again.changes == [], name
            transaction.set_rollback(True)
    assert count == 2 * 51


@pytest.mark.requirement("EB-200")
def test_what_we_write_is_valid_by_the_schema_and_read_again(corpus: Path) -> None:
    schema = etree.XMLSchema(etree.parse(corpus / "ebms-core/xsd/cpp-cpa-2_0.xsd"))
    for name, content, wanted in each(corpus):
        cpa = as_read(content, wanted)
        written = compose(cpa)
        schema.assertValid(etree.fromstring(written))
        again = read(written, cpa.ours)
        assert sorted(again.actions, key=repr) == sorted(cpa.actions, key=repr), name
        assert replace(again, actions=(), notes=()) == replace(cpa, actions=(), notes=()), name


@pytest.mark.requirement("EB-200")
def test_a_cpa_made_of_an_agreement_is_valid_by_the_schema(corpus: Path) -> None:
    schema = etree.XMLSchema(etree.parse(corpus / "ebms-core/xsd/cpp-cpa-2_0.xsd"))
    for _, content, wanted in each(corpus):
        with transaction.atomic():
            carry_out(in_force(content, wanted), TESTER)
            schema.assertValid(etree.fromstring(made_of(Agreement.objects.get(), TODAY)))
            transaction.set_rollback(True)


@pytest.mark.requirement("EB-201")
def test_business_of_digikoppeling_is_reliable_and_its_signals_are_best_effort(
    corpus: Path,
) -> None:
    names = set()
    for name, content, wanted in each(corpus):
        if "cpaStubEBF.rm." not in name:
            continue
        names.add(name)
        with transaction.atomic():
            planned = in_force(content, wanted)
            carry_out(planned, TESTER)
            for one in Agreement.objects.get().channels.all():
                terms = (one.agreed.ack, one.agreed.eliminates)
                assert terms == ("always", "always"), (name, one.action)
            for signals in (planned.cpa.signals_out, planned.cpa.signals_in):
                assert (signals.ack, signals.eliminates) == ("never", "never"), name
            transaction.set_rollback(True)
    assert len(names) == 9


def outcome(content: bytes, wanted: Wanted, now: datetime = TODAY) -> str:
    """Why it is refused; empty if it is not."""
    try:
        plan(content, wanted, now)
    except CpaRefused as refused:
        return str(refused)
    return ""


@pytest.mark.requirement("EB-197", "EB-199")
def test_today_those_are_refused_that_are_over_or_proposed(corpus: Path) -> None:
    for name, content, wanted in each(corpus):
        why = outcome(content, wanted)
        if name.startswith("hermes/"):
            assert why == "It has ended on 2010-01-01.", name
        elif name.startswith("navikt"):
            assert why == "Its Status is proposed: only agreed or signed may be used.", name
        else:
            assert why == "", name
    assert not Partner.objects.exists()
    assert not exported()["partners"]


@pytest.mark.requirement("EB-199")
def test_without_the_certificate_what_is_signed_is_refused(corpus: Path) -> None:
    refused = set()
    for name, content, wanted in each(corpus):
        start = as_read(content, wanted).start + timedelta(days=1)
        why = outcome(content, Wanted(wanted.we, not_yet=True), start)
        if why:
            assert "Needs the certificate of the partner." in why, name
            refused.add(name)
    assert refused == NAMED_ONLY
