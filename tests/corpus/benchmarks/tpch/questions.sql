-- TPC-H's questions in our own words; questions.py says how this file is read.

-- 1. How much was shipped up to a day, by return flag and status: totals, means, items?
-- possible: SELECT flag, status FROM unnest(['A', 'N', 'R']) f(flag), unnest(['F', 'O']) s(status)
SELECT l_returnflag, l_linestatus,
       sum(l_quantity) AS pieces,
       sum(l_extendedprice) AS listed,
       sum(l_extendedprice * (1 - l_discount)) AS sold,
       sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS paid,
       avg(l_quantity) AS mean_pieces,
       avg(l_extendedprice) AS mean_listed,
       avg(l_discount) AS mean_discount,
       count(*) AS items
FROM lineitem
WHERE l_shipdate <= DATE '1998-05-01'
GROUP BY l_returnflag, l_linestatus
ORDER BY l_returnflag, l_linestatus;
