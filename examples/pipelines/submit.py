"""For spark-submit: `spark-submit --master yarn submit.py shop.yaml` uses its session."""

import sys

from pyspark.sql import SparkSession

from omnigraph.spark import pipelines

spark = SparkSession.builder.getOrCreate()
run = pipelines.load(sys.argv[1]).run(spark)
print(run.pipeline, run.status.value, run.commit)
spark.stop()
sys.exit(run.exit_code)
