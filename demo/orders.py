"""Purchase orders for a run without documents of its own: small, plausible, from a seed."""

from datetime import date, timedelta
from pathlib import Path
from random import Random
from xml.etree.ElementTree import Element, SubElement, indent, tostring

BUYERS = ("Hanse Kontor GmbH", "Nordlicht Handel AG", "Kaufhaus Aurora", "Brücke & Söhne KG")
SELLERS = ("Alpenhof Molkerei", "Müller Werkzeuge", "Łódź Textil", "Vega Components Ltd")
GOODS = (
    ("4006381333931", "Ball pen, blue", "0.85"),
    ("5901234123457", "Linen shirt, size L", "24.90"),
    ("4012345678901", "Crate of apple juice, 12 bottles", "18.40"),
    ("7612345678900", "Mountain cheese, whole", "96.00"),
    ("4260012345676", "Cordless drill, 18 V", "129.00"),
    ("4099876543219", "Wood screws, 200 pieces", "7.15"),
)
FIRST_DAY = date(2000, 10, 16)


def purchase_order(number: int, dice: Random) -> bytes:
    """One order as an XML document, UTF-8."""
    order = Element("PurchaseOrder", number=f"PO-{number:06d}")
    SubElement(order, "IssueDate").text = (FIRST_DAY + timedelta(dice.randrange(365))).isoformat()
    SubElement(order, "Buyer").text = dice.choice(BUYERS)
    SubElement(order, "Seller").text = dice.choice(SELLERS)
    for position in range(1, dice.randint(2, 12)):
        article, description, price = dice.choice(GOODS)
        line = SubElement(order, "Line", position=str(position))
        SubElement(line, "Article").text = article
        SubElement(line, "Description").text = description
        SubElement(line, "Quantity").text = str(dice.randint(1, 500))
        SubElement(line, "Price", currency="EUR").text = price
    indent(order)
    return bytes(tostring(order, encoding="UTF-8", xml_declaration=True)) + b"\n"


def write_orders(folder: Path, count: int, seed: int) -> list[Path]:
    """`count` orders as files of `folder`, the same for the same seed."""
    dice = Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(1, count + 1):
        file = folder / f"order-{number:05d}.xml"
        file.write_bytes(purchase_order(number, dice))
        files.append(file)
    return files
