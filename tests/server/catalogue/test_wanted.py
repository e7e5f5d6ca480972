from __future__ import annotations

import pytest

from dpquery.server.catalogue.pg_parser import Wanted

WANTED = """
SELECT 1
SELECT version()
SELECT current_database(), pg_backend_pid()
VALUES (1)
WITH t AS (SELECT 1 AS n) SELECT n FROM t
SELECT * FROM generate_series(1, 3)
SELECT EXTRACT(year FROM current_date)
SELECT * FROM pg_class
select relname from PG_CATALOG.pg_class
SELECT * FROM information_schema.tables
SELECT * FROM "information_schema"."tables"
SELECT * FROM staff LIMIT 0
SELECT TRUE AS "_" FROM "public"."staff" WHERE 1 <> 1 LIMIT 0
SELECT age FROM staff WHERE 1 = 0
SELECT age FROM staff WHERE age > 3 AND FALSE
SELECT dept, COUNT(*) FROM staff WHERE 0 = 1 GROUP BY dept
SELECT * FROM (SELECT age FROM staff WHERE 1=0) AS t
SELECT * FROM staff FETCH FIRST 0 ROWS ONLY
SELECT COUNT(*) FROM staff, pg_class
"""
NOT_WANTED = """
SELECT COUNT(*) FROM staff
SELECT COUNT(*) FROM staff WHERE 1 = 0
SELECT COUNT(*) FROM staff WHERE age = 20 LIMIT 10
SELECT (SELECT COUNT(*) FROM staff), COUNT(*) FROM visits WHERE 1 = 0
SELECT MAX(age) FROM staff HAVING FALSE
SELECT age FROM staff WHERE 1 = 1
SELECT age FROM staff LIMIT 1
SELECT dept FROM staff WHERE FALSE OR age = 1
SELECT age FROM staff WHERE FALSE UNION ALL SELECT age FROM staff
SELECT DP_COUNT(*, eps => 0.1) FROM staff
SELECT DP_COUNT(*, eps => 0.1) FROM staff LIMIT 0
SELECT 'pg_catalog.pg_class', COUNT(*) FROM staff
SELECT COUNT(*) FROM staff -- FROM pg_class
SELECT * FROM nothing
SELECT COUNT(*)
SELECT age
SELECT * FROM read_text('/etc/passwd')
SHOW TABLES
DESCRIBE staff
DELETE FROM pg_class
COPY pg_class TO 'x'
EXPLAIN SELECT 1
'
"""


def lines(text: str) -> list[str]:
    return text.strip().splitlines()


@pytest.mark.parametrize("text", lines(WANTED))
def test_questions_about_the_catalogue_are_wanted(text: str, shown: object) -> None:
    assert Wanted(shown).wants(text)
    assert Wanted(shown).wants(f"{text};")


@pytest.mark.parametrize(
    "text", ["", " ; ", "\0", "SELECT (" * 200, "SELECT 1" + " + 1" * 5000, *lines(NOT_WANTED)]
)
def test_all_others_are_not(text: str, shown: object) -> None:
    assert not Wanted(shown).wants(text)
