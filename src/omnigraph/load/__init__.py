"""Loads: the data of a caller becomes one commit.

Rows pass three stages on both engines, and each stage has its own noun:

- *Parsed*: `sources` finds the inputs. `json_lines`, `json_arrays`, `csv_files` and `arrow_columns`
  read them as `ParsedBlock` and `ParsedRows`.
- *Prepared*: `prepare_rows` gives every row its id and checks it by itself. `prepared` holds all
  `PreparedTable`s of a load.
- *Written*: `commit_load` checks prepared rows against the graph and makes vectors, `write_tables`
  writes the rows as fragments, and one transaction makes them visible.

Rows that break a rule are rejected: `rejects` says what happens with them, and `rejected_input`
finds what the input has at their places.

In mode patch rows are `patch_rows` first. `patch_build` completes them from the stored rows, and
the whole rows go on as in mode merge.

`local_load` runs the stages in this process. `omnigraph.spark.load` runs the first two, and the
writing, in Spark workers.
"""
