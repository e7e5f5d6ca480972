"""Public query sets, asked in our own words over small data of their schemas.

A set is a folder of three files, and a line of `sets.SETS`: `data.py` writes its tables, the
same on every run; `policy.toml` protects them; `questions.sql` asks, as `questions.py` says.
"""
