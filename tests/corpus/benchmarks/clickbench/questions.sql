-- ClickBench's questions in our own words; questions.py says how this file is read.

-- 1. How many pages were seen?
SELECT count(*) FROM hits;
