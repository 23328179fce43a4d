"""Random programs, tables, files and models, run by sudare and by libraries that do the same in the clear.

`core` says what a case is and how it is judged, `values` draws numbers, and each other module draws
cases of one kind. `test_short.py` runs a few of each; `scripts/differential.py` runs many.
"""
