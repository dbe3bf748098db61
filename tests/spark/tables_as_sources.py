"""Write, route and join a table of a format by plans that split a hot key; print what was found as JSON.

usage: tables_as_sources.py FOLDER delta|iceberg     `scripts/jars` has their jars
"""

import json
import sys
from pathlib import Path

from killed_driver import session, settings_of
from pyspark.sql import functions as F

from keysplit import spark as kss

WORKERS = 8


def main(folder: Path, kind: str) -> None:
    spark = session(folder, settings=settings_of(folder, kind))
    country = F.when(F.col("id") % 10 < 9, "GB").otherwise(F.concat(F.lit("c"), F.col("id") % 30))
    sales = spark.range(6_000).select(country.alias("country"), "id")
    writer = kss.write(sales, "country", workers=WORKERS, way="place").format(kind)
    if kind == "iceberg":
        # by default Iceberg shuffles the rows of a partitioned table once more, by partition
        writer.option("distribution-mode", "none").saveAsTable("totals.sales")
        table = spark.table("totals.sales")
    else:
        writer.save(f"{folder}/sales")
        table = spark.read.format(kind).load(f"{folder}/sales")
    # no row_id: the columns of the table are known to be steady
    placed = kss.repartition(table, "country", workers=WORKERS)
    names = table.select("country").distinct().withColumn("name", F.upper("country"))
    joined = kss.join(table, names.hint("merge"), "country", workers=WORKERS, way="place")
    found = {
        "other rows": table.exceptAll(sales).count() + sales.exceptAll(table).count(),
        "misplaced": placed.filter(F.spark_partition_id() != F.col("worker")).count(),
        "workers": placed.filter("country = 'GB'").select("worker").distinct().count(),
        "wrongly joined": joined.exceptAll(table.join(names, "country")).count(),
        "files": table.filter("country = 'GB'").select(F.input_file_name()).distinct().count(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
