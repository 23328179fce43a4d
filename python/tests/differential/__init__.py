"""Random programs, tables, files and models, run by sudare and by libraries in the clear.

`core` defines and judges cases, `values` draws numbers, and each other module draws cases of one kind.
`test_short.py` runs a few of each, and `scripts/differential.py` runs many.
"""
