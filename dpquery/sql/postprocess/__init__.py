"""The query above the frontier: everything that is computed from released and public tables.

All of it is post-processing, run by a second engine that never saw a private row. The list of
functions is closed all the same, names are resolved here, and what could raise on a value is
put inside TRY, which gives NULL instead: a charge must not end in an error. Not a word of the
analyst's text is passed on: every name is made here, and literals are read and printed anew.
"""
