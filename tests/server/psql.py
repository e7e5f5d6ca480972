"""What is typed into psql, and what it has to show."""

from __future__ import annotations

from tests.server.jdbc import TABLES
from tests.server.postgres.test_clients import GROUPS

PLAIN = "SELECT dept, COUNT(*) AS n FROM staff GROUP BY dept ORDER BY dept"
ROWS = "SELECT * FROM staff LIMIT 200"
SAID = {
    "rows and their number": (f"{GROUPS};", ["eng", "legal", "(5 rows)"]),
    "prices as notices": (f"{GROUPS};", ["NOTICE:  ", "spent;", "n: 95% within ± 6"]),
    "SET dp.eps": (f"SET dp.eps = 0.5;\n{PLAIN};", ["SET", "(5 rows)"]),
    "EXPLAIN": (f"EXPLAIN {GROUPS};", ["charge", "0.5", "± 6"]),
    "SHOW BUDGET": ("SHOW BUDGET;", ["limit", "analyst", "10000"]),
    "transactions": (f"BEGIN;\n{GROUPS};\nCOMMIT;", ["BEGIN", "(5 rows)", "COMMIT"]),
    "variables": (
        "\\set d eng\nSELECT DP_COUNT(*, eps=0.5) FROM staff WHERE dept = :'d';", ["(1 row)"],
    ),
    "\\gset": ("SELECT DP_COUNT(*, eps=0.5) AS n FROM staff \\gset\n\\echo n=:n", ["n=", "\n"]),
    "\\x": (f"\\x\n{GROUPS};", ["RECORD 1", "dept | eng"]),
    "\\timing": (f"\\timing\n{GROUPS};", ["Time: ", " ms"]),
    "\\gdesc": (f"{GROUPS} \\gdesc", ["dept", "text", "bigint"]),
    "FETCH_COUNT": (f"\\set FETCH_COUNT 2\n{GROUPS};", ["eng", "sales"]),
    "where an error is": (
        "SELECT DP_COUNT(*, eps=0.5)\nFROM   nope;", ["LINE 2: FROM   nope;\n               ^"],
    ),
    "why, and what helps": (f"{ROWS};", ["DPQ301", "DETAIL:  ", "HINT:  SELECT DP_COUNT"]),
    "a script goes on after an error": ("SELECT nope;\n\\echo on", ["ERROR:  ", "on"]),
    "\\conninfo": ("\\conninfo", ['as user "alice"']),
    "\\d": ("\\d", [*TABLES, "(3 rows)"]),
    "\\d TABLE": ("\\d staff", ['Table "public.staff"', "rating", "numeric(3,1)"]),
    "\\d+ TABLE": ("\\d+ staff", ["bounds 18 to 70"]),
    "\\dt+": ("\\dt+", [*TABLES, "privacy unit: person_id; one row per unit"]),
    "\\dn": ("\\dn", ["public"]),
    "\\l": ("\\l", ["dpquery", "UTF8"]),
    "\\du": ("\\du", ["alice"]),
}  # fmt: skip
