"""What a task of an orchestrator does: run a pipeline, read its JSON, decide what comes next.

python nightly.py shop.yaml: exits with 0 if the night was good, so a scheduler can retry the rest.
"""

import json
import subprocess
import sys


def main(file: str) -> int:
    command = [sys.executable, "-m", "omnigraph.cli", "pipeline", "run", file]
    done = subprocess.run(
        [*command, "--strict-warnings", "--json"], capture_output=True, text=True, check=False
    )
    run = json.loads(done.stdout)
    match done.returncode:
        case 0:
            print(f"{run['pipeline']}: {run['status']}")
        case 7:  # published, but rows failed an expectation
            for each in run["expectations"]:
                if each["failed"]:
                    print(f"look at {each['failed']} rows of {each['step']}: {each['check']}")
        case 5:  # another writer changed the same entities
            print(f"conflicts: merge {run['review_branch']} by hand")
        case _:
            print(run.get("error", run))
    for target in run.get("targets", ()):
        print(f"{target['type']}: {target['inserted']} inserted, {target['updated']} updated")
    if run.get("review_branch"):
        print(f"ask for a review of {run['review_branch']}")
    return 0 if done.returncode in (0, 7) else done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
