"""`make bench`: every family, or those named on the command line."""

from __future__ import annotations

import argparse

from bench import (
    compiler,
    foundation,
    load,
    maintenance,
    merge,
    mutation,
    pipeline,
    points,
    query,
    search,
    soak,
    topology,
)

FAMILIES = {
    "foundation": foundation.run,
    "compiler": compiler.run,
    "query": query.run,
    "points": points.run,
    "search": search.run,
    "merge": merge.run,
    "topology": topology.run,
    "mutation": mutation.run,
    "load": load.run,
    "maintenance": maintenance.run,
    "pipeline": pipeline.run,
    "soak": soak.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], default=[])
    parser.add_argument("--scale", choices=["small", "full"], default="small")
    arguments = parser.parse_args()
    for name in arguments.families or FAMILIES:
        FAMILIES[name](arguments.scale)


if __name__ == "__main__":
    main()
