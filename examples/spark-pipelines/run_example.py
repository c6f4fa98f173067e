"""Run the pipeline twice with `spark-pipelines`: first all files, then only the new one.

python run_example.py [FOLDER]: everything that is written stays in FOLDER.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

import omnigraph

HERE = Path(__file__).parent
SPARK_HOME = Path(pyspark.__path__[0])


def main(folder: Path) -> None:
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    graph = omnigraph.init(folder / "packages.omni", folder / "packages.pg")
    run_pipeline(folder, graph.uri)
    (folder / "in" / "packages-2.csv").write_text("name,version,downloads\nPolars,2.1.0,4000\n")
    run_pipeline(folder, graph.uri)
    for commit in graph.commits.list():
        print(commit.operation, commit.message)
    print(sorted(graph.read("Package").column("name").to_pylist()))


def run_pipeline(folder: Path, graph: str) -> None:
    spec = folder / "spark-pipeline.yaml"
    spec.write_text(
        spec.read_text().replace("storage: storage", f"storage: {folder.as_uri()}/storage")
    )
    environment = {
        **os.environ,
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": sys.executable,  # a Python with omnigraph: Spark finds the format in it
        "SPARK_LOCAL_IP": "127.0.0.1",
        "GRAPH": graph,
        "FILES": str(folder / "in"),
    }
    # A catalog on disk, so that the table of the first run is known to the second.
    catalog = ["--conf", "spark.sql.catalogImplementation=hive"]
    command = [SPARK_HOME / "bin" / "spark-pipelines", *catalog, "run", "--spec", spec]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.stdout + done.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
