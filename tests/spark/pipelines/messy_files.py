"""Data as it comes: odd headers and delimiters, mixed dates, references that lead nowhere."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def write_messy_files(folder: Path) -> Path:
    """Customers, orders in two files, products with lists, items between them, stores, regions."""
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(3)
    with (folder / "Kunden.csv").open("w", encoding="utf-8-sig", newline="") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerow(["Kunden-Nr", "Full Name", "E-Mail", "Status", "Geburtstag", "Umsatz", ""])
        for i in range(60):
            rows.writerow(
                [
                    f"K{i:04}",
                    chance.choice(["Ada Lovelace", '  Zoë "Z" Müller', "O'Neil; Sons"]),
                    chance.choice(["", "N/A", f"u{i}@x.de"]),
                    chance.choice(["aktiv", "Aktiv", "gesperrt"]),
                    chance.choice(["1990-02-03", "24.12.1985", ""]),
                    chance.choice(["1.234,50", "12,5", "0,99"]),
                    "",
                ]
            )
    for month, first in (("01", 1), ("02", 41)):
        with (folder / f"orders-2024-{month}.csv").open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["id", "customer", "placed at", "total", "note", "zip"])
            for i in range(first, first + 40):
                placed = f"2024-{month}-{chance.randrange(1, 29):02} 10:{i % 60:02}:00"
                note = 'two\nlines, "quoted"' if i == 7 else ""
                # One of the customers is unknown.
                customer = "K9999" if i == 50 else f"K{chance.randrange(60):04}"
                lines.writerow(
                    [i, customer, placed, round(chance.random() * 100, 2), note, "01234"]
                )
    with (folder / "products.ndjson").open("w") as out:
        for i in range(20):
            product = {
                "sku": f"{i:05}",
                "title": f"Thing {i}",
                "price": i * 1.5 if i else None,
                "tags": ["a", "b"][: i % 3],
                "dims": {"w": i, "h": 2.5},
                "related": [f"{(i + 1) % 20:05}"] if i % 2 else [],
            }
            out.write(json.dumps(product) + "\n")
    with (folder / "order_items.tsv").open("w", newline="") as file:
        items = csv.writer(file, delimiter="\t")
        items.writerow(["order_id", "product_sku", "qty"])
        pairs = {(chance.randrange(1, 81), chance.randrange(20)) for _ in range(90)}
        for order, product_number in sorted(pairs):
            items.writerow([order, f"{product_number:05}", chance.randrange(1, 9)])
    (folder / "stores.csv").write_text("\ufeffcode, city\nx1, Oslo \nx2,Rome\n", encoding="utf-8")
    pq.write_table(
        pa.table({"Region Code": ["N", "S"], "since": pa.array([1, 2], pa.date32())}),
        folder / "regions.parquet",
    )
    return folder


def write_differing_files(folder: Path) -> Path:
    """Series of files that differ: encoding, columns, an empty file, records that are broken."""
    folder.mkdir(parents=True, exist_ok=True)
    header = "Customer ID,Full Name,City"
    (folder / "customers-1.csv").write_bytes(
        f'\ufeff{header}\r\nC1,"Lovelace, Ada",London\r\nC2,"Two\r\nLines",Paris\r\n'
        'C3,only two\r\nC1,"Lovelace, Ada",Rome\r\nC4,Bob,\r\nC5,Eve,Oslo\r\n'.encode()
    )
    (folder / "customers-2.csv").write_bytes(f"{header}\nC6,Jürgen,Köln\n".encode("cp1252"))
    (folder / "customers-3.csv").write_bytes(b"")
    (folder / "customers-4.csv").write_text("City,Customer ID,Full Name,Country\nBonn,C7,Zoe,DE\n")
    orders = [
        '{"order": 1, "customer": "C1", "total": 9.5}',
        '{"order": 2, "customer": "C2", "total": 8}',
        "not JSON",
        '{"order": 2, "customer": "C2", "total": 7}',
        '{"order": 3, "customer": "C404", "total": 1}',
        '{"order": 4, "customer": "C7", "total": 3}',
    ]
    (folder / "orders-2026-11-16.ndjson").write_text("\n".join(orders) + "\n")
    (folder / "nothing.csv").write_text("")
    return folder
