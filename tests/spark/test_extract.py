"""Columns of a payload by path."""

from pathlib import Path

import pytest

from spark_bridge.extract import PayloadColumns, read_columns
from spark_bridge.failures import JobFailed

CBC = "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2"
ORDER = f"""
<Order xmlns:c="{CBC}" no="7" xml:lang="de" c:version="2">
  <c:ID schemeID="DUNS">1</c:ID><c:ID schemeID="GLN">2</c:ID>
  <Line position="1"/><Line position="2" open="yes"/>
</Order>"""


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("cbc:ID", "1"),
        ("cbc:ID[@schemeID='GLN']", "2"),
        ("cbc:ID[@schemeID='GLN']/@schemeID", "GLN"),
        ("Line[@open]/@position", "2"),
        ("Line[2]/@open", "yes"),
        (".//Line/@position", "1"),
        ("Line/@nothing", None),
        ("Buyer/@name", None),
        ("@no", "7"),
        ("@xml:lang", "de"),
        ("@cbc:version", "2"),
    ],
)
def test_path(path: str, value: str | None) -> None:
    columns = PayloadColumns({"found": path}, {"cbc": CBC}, payload=1)
    columns.check()
    assert columns.values([{"number": 1, "content": ORDER.encode()}]) == {"found": value}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ('partner = "Buyer"', "a column partner is there already"),
        ('State = "State"', "a column State is there already"),
        ('payload_error = "Error"', "a column payload_error is there already"),
        ('id_ = "a"\nID_ = "b"', "a column ID_ is there already"),
        ('number = "Line["', "is no file of columns"),
        ('number = "@x:no"', "'x' is missing"),
        ('number = "x:no"', "prefix 'x' not found"),
    ],
)
def test_columns_that_are_refused(tmp_path: Path, columns: str, said: str) -> None:
    file = tmp_path / "columns.toml"
    file.write_text(f"[columns]\n{columns}\n")
    with pytest.raises(JobFailed, match=said):
        read_columns(str(file))
