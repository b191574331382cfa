"""The first steps of docs/spark.md, as they stand there."""

import re

import pytest
from pyspark.sql import SparkSession

from tests.exchange.machine import ROOT
from tests.spark.office import Office, submitted


def test_section_works_by_copy_and_paste(
    spark: SparkSession,
    office: Office,
    capfd: pytest.CaptureFixture[str],
) -> None:
    pair = office.silent_pair()
    section = (
        (ROOT / "docs/spark.md")
        .read_text()
        .partition("\n## First steps\n")[2]
        .partition("\n## ")[0]
    )
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    code = code.replace("http://127.0.0.1:8000", office.url)
    code = code.replace("tpa-4711", pair.agreement.tpa_id)
    code = code.replace('"token"', repr(str(office.token_file)))
    exec(code, {})
    assert [message.state for message in submitted(pair)] == ["queued", "queued"]
    assert "queued" in capfd.readouterr().out
    exec(code, {})
    assert submitted(pair).count() == 2
