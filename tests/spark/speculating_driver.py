"""A driver of its own: `python -m tests.spark.speculating_driver TPA_ID OPTIONS` loads ROWS orders
in their order; first attempts come to a stand. Nothing of Django here."""

import json
import sys

from spark_bridge import ordered_by_pair
from spark_bridge.session import open_session
from tests.spark.disturbed import Standing

ROWS = 200

if __name__ == "__main__":
    spark = open_session("speculating driver")
    spark.dataSource.register(Standing)
    rows = [(n, sys.argv[1], f"<Order no='{n}'/>", f"{n}") for n in range(ROWS)]
    fields = "order_no long, tpa_id string, payload string, label string"
    orders = spark.createDataFrame(rows, fields).selectExpr(
        "*", "'Orders' AS service_interface", "'New' AS action"
    )
    writer = ordered_by_pair(orders, "order_no").write.format(Standing.name()).mode("append")
    writer.options(**json.loads(sys.argv[2])).save()
