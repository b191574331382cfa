"""The entries fit the product: a mutant whose text has changed tests nothing."""

from tests.mutants.__main__ import ROOT, load


def test_text_of_each_mutant_is_in_its_file_once() -> None:
    counts = {one.name: (ROOT / one.file).read_text().count(one.find) for one in load([])}

    assert {name: count for name, count in counts.items() if count != 1} == {}


def test_tests_of_each_mutant_exist() -> None:
    paths = {path.partition("::")[0] for one in load([]) for path in one.tests.split()}

    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
