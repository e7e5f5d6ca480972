-- TPC-H's questions in our own words, over its own schema; questions.py says how this is read.

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

-- 2. Which suppliers of a region offer small brass parts at the lowest price there?
WITH offers AS (
    SELECT p_partkey, p_mfgr, s_name, s_acctbal, n_name, ps_supplycost
    FROM partsupp
    JOIN part ON p_partkey = ps_partkey
    JOIN supplier ON s_suppkey = ps_suppkey
    JOIN nation ON n_nationkey = s_nationkey
    JOIN region ON r_regionkey = n_regionkey
    WHERE r_name = 'EUROPE'
)
SELECT p_partkey, p_mfgr, s_name, n_name, s_acctbal, ps_supplycost
FROM offers o
WHERE p_partkey IN (SELECT p_partkey FROM part WHERE p_size <= 5 AND p_type LIKE '%BRASS')
  AND ps_supplycost = (SELECT min(other.ps_supplycost) FROM offers other WHERE other.p_partkey = o.p_partkey)
ORDER BY s_acctbal DESC, p_partkey
LIMIT 20;

-- 3. Which ten open orders of a segment are worth most?
-- differs: none
-- found: SELECT o_orderkey, o_orderdate FROM orders GROUP BY ALL HAVING count(DISTINCT o_custkey) > 1
SELECT l_orderkey, o_orderdate, sum(l_extendedprice * (1 - l_discount)) AS worth
FROM customer, orders, lineitem
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey
  AND c_mktsegment = 'BUILDING'
  AND o_orderdate < DATE '1995-03-10' AND l_shipdate > DATE '1995-03-10'
GROUP BY l_orderkey, o_orderdate
ORDER BY worth DESC, l_orderkey
LIMIT 10;

-- 4. How many orders of a quarter had an item that came late, by priority?
SELECT o_orderpriority, count(*) AS orders
FROM orders
WHERE o_orderdate >= DATE '1994-04-01' AND o_orderdate < DATE '1994-07-01'
  AND EXISTS (
      SELECT * FROM lineitem
      WHERE l_orderkey = o_orderkey AND l_receiptdate > l_commitdate
  )
GROUP BY o_orderpriority
ORDER BY o_orderpriority;

-- 5. How much do suppliers of a region sell to customers of their own nation, by nation?
SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS sold
FROM customer, orders, lineitem, supplier, nation, region
WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
  AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
  AND r_name = 'ASIA' AND YEAR(o_orderdate) = 1994
GROUP BY n_name
ORDER BY sold DESC;

-- 6. What would a year have brought in without small discounts on small quantities?
SELECT sum(l_extendedprice * l_discount) AS gain
FROM lineitem
WHERE YEAR(l_shipdate) = 1994 AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24;

-- 7. How much was shipped between two nations, by direction and year?
SELECT supplier.n_name AS sent_from, customer.n_name AS sent_to, YEAR(l_shipdate) AS year,
       sum(l_extendedprice * (1 - l_discount)) AS sold
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer c ON c_custkey = o_custkey
JOIN supplier s ON s_suppkey = l_suppkey
JOIN nation supplier ON supplier.n_nationkey = s_nationkey
JOIN nation customer ON customer.n_nationkey = c_nationkey
WHERE l_shipdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
  AND ((supplier.n_name = 'FRANCE' AND customer.n_name = 'GERMANY')
    OR (supplier.n_name = 'GERMANY' AND customer.n_name = 'FRANCE'))
GROUP BY sent_from, sent_to, year
ORDER BY sent_from, sent_to, year;

-- 8. Which share of a region's purchases of a type of part came from one nation, by year?
SELECT YEAR(o_orderdate) AS year,
       sum(CASE WHEN seller.n_name = 'BRAZIL' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
         / sum(l_extendedprice * (1 - l_discount)) AS share
FROM lineitem
JOIN orders ON l_orderkey = o_orderkey
JOIN customer ON o_custkey = c_custkey
JOIN part ON p_partkey = l_partkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation seller ON seller.n_nationkey = s_nationkey
JOIN nation buyer ON buyer.n_nationkey = c_nationkey
JOIN region ON r_regionkey = buyer.n_regionkey
WHERE r_name = 'AMERICA' AND p_type = 'SMALL PLATED TIN'
  AND o_orderdate BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'
GROUP BY year
ORDER BY year;

-- 9. What was earned with green parts, by the supplier's nation and year?
SELECT n_name, YEAR(o_orderdate) AS year,
       sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN part ON p_partkey = l_partkey
JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
JOIN supplier ON s_suppkey = l_suppkey
JOIN nation ON n_nationkey = s_nationkey
WHERE p_name LIKE '%green%'
GROUP BY n_name, year
ORDER BY n_name, year DESC;

-- 10. Which twenty customers sent back most of a quarter's purchases?
-- refused: DPQ402, it shows customers
SELECT c_custkey, c_name, c_acctbal, sum(l_extendedprice * (1 - l_discount)) AS lost
FROM customer
JOIN orders ON o_custkey = c_custkey
JOIN lineitem ON l_orderkey = o_orderkey
WHERE l_returnflag = 'R'
  AND o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01'
GROUP BY c_custkey, c_name, c_acctbal
ORDER BY lost DESC, c_custkey
LIMIT 20;

-- 11. Which parts make up a large share of what a nation's suppliers have in stock?
WITH stock AS (
    SELECT ps_partkey, ps_supplycost * ps_availqty AS worth
    FROM partsupp
    JOIN supplier ON s_suppkey = ps_suppkey
    JOIN nation ON n_nationkey = s_nationkey
    WHERE n_name = 'GERMANY'
)
SELECT ps_partkey, sum(worth) AS worth
FROM stock
GROUP BY ps_partkey
HAVING sum(worth) > (SELECT 0.05 * sum(worth) FROM stock)
ORDER BY worth DESC;

-- 12. How many late items were sent by mail and by ship, of urgent orders and of others?
SELECT l_shipmode,
       count(*) FILTER (WHERE o_orderpriority IN ('1-URGENT', '2-HIGH')) AS urgent,
       count(*) FILTER (WHERE o_orderpriority NOT IN ('1-URGENT', '2-HIGH')) AS others
FROM orders, lineitem
WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP')
  AND l_shipdate < l_commitdate AND l_commitdate < l_receiptdate
  AND YEAR(l_receiptdate) = 1994
GROUP BY l_shipmode
ORDER BY l_shipmode;

-- 13. How many customers have placed how many ordinary orders?
-- differs: alone
-- found: SELECT n FROM (SELECT count(o_orderkey) AS n FROM customer LEFT JOIN orders ON o_custkey = c_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey) GROUP BY n HAVING count(*) > 1
WITH placed AS (
    SELECT c_custkey, count(o_orderkey) AS orders
    FROM customer
    LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%'
    GROUP BY c_custkey
)
SELECT orders, count(*) AS customers
FROM placed
GROUP BY orders
ORDER BY customers DESC, orders DESC;

-- 14. Which percentage of a month's revenue came from promoted parts?
SELECT 100.0 * sum(l_extendedprice * (1 - l_discount)) FILTER (WHERE p_type LIKE 'PROMO%')
         / sum(l_extendedprice * (1 - l_discount)) AS percent
FROM lineitem
JOIN part ON p_partkey = l_partkey
WHERE l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01';

-- 15. Which supplier brought in most in a quarter?
WITH revenue AS (
    SELECT s_suppkey, s_name, sum(l_extendedprice * (1 - l_discount)) AS total
    FROM lineitem
    JOIN supplier ON s_suppkey = l_suppkey
    WHERE l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'
    GROUP BY s_suppkey, s_name
)
SELECT s_suppkey, s_name, total
FROM revenue
WHERE total = (SELECT max(total) FROM revenue)
ORDER BY s_suppkey;

-- 16. How many suppliers without complaints offer parts of each kind, but for one brand?
SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers
FROM partsupp
JOIN part ON p_partkey = ps_partkey
WHERE p_brand <> 'Brand#22' AND p_type NOT LIKE 'PROMO BRUSHED%' AND p_size IN (2, 3, 5, 7, 9)
  AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
GROUP BY p_brand, p_type, p_size
ORDER BY suppliers DESC, p_brand, p_type, p_size;

-- 17. What does a brand lose a year if orders far below a part's mean quantity are not taken?
-- differs: noise
WITH items AS (
    SELECT p_partkey, l_quantity, l_extendedprice
    FROM lineitem
    JOIN part ON p_partkey = l_partkey
    WHERE p_brand = 'Brand#23' AND p_container = 'SM BOX'
), sold AS (
    SELECT p_partkey, CAST(l_quantity AS INTEGER) AS pieces, sum(l_extendedprice) AS price
    FROM items
    GROUP BY p_partkey, pieces
), usual AS (
    SELECT p_partkey, avg(l_quantity) AS pieces
    FROM items
    GROUP BY p_partkey
)
SELECT sum(price) / 7.0 AS yearly
FROM sold
JOIN usual USING (p_partkey)
WHERE sold.pieces < 0.2 * usual.pieces;

-- 18. Which customers have placed orders of many pieces?
-- refused: DPQ402, it shows customers
SELECT c_name, c_custkey, o_orderkey, sum(l_quantity) AS pieces
FROM customer, orders, lineitem
WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 250)
  AND c_custkey = o_custkey AND o_orderkey = l_orderkey
GROUP BY c_name, c_custkey, o_orderkey
ORDER BY pieces DESC
LIMIT 100;

-- 19. What did parts of three kinds bring in that were handed over in person?
SELECT sum(l_extendedprice * (1 - l_discount)) AS sold
FROM lineitem
JOIN part ON p_partkey = l_partkey
WHERE l_shipinstruct = 'DELIVER IN PERSON' AND l_shipmode IN ('AIR', 'RAIL')
  AND (p_brand = 'Brand#11' AND p_container LIKE 'SM%' AND l_quantity BETWEEN 1 AND 11 AND p_size <= 5
    OR p_brand = 'Brand#22' AND p_container LIKE 'LG%' AND l_quantity BETWEEN 10 AND 20 AND p_size <= 8
    OR p_brand = 'Brand#13' AND p_container LIKE 'LG%' AND l_quantity BETWEEN 20 AND 30 AND p_size <= 10);

-- 20. Which suppliers have more of some forest part than half of what they sold of it in a year?
WITH sold AS (
    SELECT ps_partkey, ps_suppkey, sum(l_quantity) AS pieces
    FROM lineitem
    JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey
    WHERE YEAR(l_shipdate) = 1994
    GROUP BY ps_partkey, ps_suppkey
)
SELECT s_name
FROM supplier
JOIN nation ON n_nationkey = s_nationkey
WHERE n_name IN ('KENYA', 'JAPAN') AND s_suppkey IN (
    SELECT ps_suppkey FROM partsupp
    JOIN part ON p_partkey = ps_partkey
    JOIN sold USING (ps_partkey, ps_suppkey)
    WHERE p_name LIKE 'forest%' AND pieces > 0 AND ps_availqty > 0.5 * pieces
)
ORDER BY s_name;

-- 21. Which suppliers of a nation were alone to blame for late orders of several suppliers?
SELECT s_name, count(*) AS times
FROM supplier, lineitem l, orders, nation
WHERE s_suppkey = l.l_suppkey AND o_orderkey = l.l_orderkey AND s_nationkey = n_nationkey
  AND n_name = 'INDIA' AND l.l_receiptdate > l.l_commitdate
  AND EXISTS (
      SELECT 1 FROM lineitem other
      WHERE other.l_orderkey = l.l_orderkey AND other.l_suppkey <> l.l_suppkey
  )
  AND NOT EXISTS (
      SELECT 1 FROM lineitem other
      WHERE other.l_orderkey = l.l_orderkey AND other.l_suppkey <> l.l_suppkey
        AND other.l_receiptdate > other.l_commitdate
  )
GROUP BY s_name
ORDER BY times DESC, s_name
LIMIT 20;

-- 22. How many customers with a good balance have never ordered, by the code of their phone?
SELECT substring(c_phone, 1, 2) AS code, count(*) AS customers, sum(c_acctbal) AS balance
FROM customer
WHERE substring(c_phone, 1, 2) IN ('11', '13', '15', '18')
  AND c_acctbal > (
      SELECT avg(c_acctbal) FROM customer
      WHERE c_acctbal > 0 AND substring(c_phone, 1, 2) IN ('11', '13', '15', '18')
  )
  AND NOT EXISTS (SELECT * FROM orders WHERE o_custkey = c_custkey)
GROUP BY code
ORDER BY code;
