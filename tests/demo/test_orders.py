from pathlib import Path
from xml.etree import ElementTree

from demo.orders import write_orders


def test_orders_are_documents_and_differ(tmp_path: Path) -> None:
    files = write_orders(tmp_path / "orders", 20, seed=7)
    contents = [file.read_bytes() for file in files]
    assert len(set(contents)) == 20
    for content in contents:
        assert ElementTree.fromstring(content).findall("Line/Quantity")


def test_the_same_seed_writes_the_same_orders(tmp_path: Path) -> None:
    def written(name: str, seed: int) -> list[bytes]:
        return [file.read_bytes() for file in write_orders(tmp_path / name, 5, seed)]

    assert written("one", 7) == written("two", 7)
    assert written("one", 7) != written("three", 8)
