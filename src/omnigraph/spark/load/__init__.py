"""Loads on Spark: workers parse, prepare and write rows; the driver checks and commits them.

`spark_load` is the driver, `load_tasks` is what workers run, `written_tables` is the driver's view
of the rows that they wrote, and `two_phase_load` serves the Spark format.
"""
