-- TPC-DS's questions in our own words; questions.py says how this file is read.

-- 1. Which customers returned more than a fifth above the average of the customers, at a store?
-- refused: DPQ301, it lists customers
WITH returned AS (
    SELECT customer_sk, sr_store_sk, SUM(sr_return_amt) AS total FROM store_returns
    JOIN date_dim ON sr_returned_date_sk = d_date_sk WHERE d_year = 2000 GROUP BY customer_sk, sr_store_sk)
SELECT c_customer_id FROM returned JOIN customer USING (customer_sk)
WHERE sr_store_sk = 3 AND total > 1.2 * (SELECT AVG(total) FROM returned WHERE sr_store_sk = 3) ORDER BY c_customer_id
LIMIT 100;

-- 2. How do sales on the web and by catalog compare with those 53 weeks later, by week and day of the week?
WITH sold AS (SELECT ws_sold_date_sk AS date_sk, ws_ext_sales_price AS price FROM web_sales
    UNION ALL SELECT cs_sold_date_sk, cs_ext_sales_price FROM catalog_sales),
weekly AS (
    SELECT d_week_seq, SUM(CASE WHEN d_day_name = 'Sunday' THEN price ELSE 0 END) AS sun,
        SUM(CASE WHEN d_day_name = 'Monday' THEN price ELSE 0 END) AS mon,
        SUM(CASE WHEN d_day_name = 'Wednesday' THEN price ELSE 0 END) AS wed,
            SUM(CASE WHEN d_day_name = 'Saturday' THEN price ELSE 0 END) AS sat
    FROM sold JOIN date_dim ON date_sk = d_date_sk GROUP BY d_week_seq)
SELECT a.d_week_seq, ROUND(a.sun / NULLIF(b.sun, 0), 2) AS sun, ROUND(a.mon / NULLIF(b.mon, 0), 2) AS mon,
    ROUND(a.wed / NULLIF(b.wed, 0), 2) AS wed, ROUND(a.sat / NULLIF(b.sat, 0), 2) AS sat
FROM weekly a JOIN weekly b ON a.d_week_seq = b.d_week_seq - 53
WHERE a.d_week_seq IN (SELECT d_week_seq FROM date_dim WHERE d_year = 2001) ORDER BY a.d_week_seq;

-- 3. What did each brand of a maker sell in November, by year?
SELECT d_year, i_brand_id, i_brand, SUM(ss_ext_sales_price) AS sales FROM date_dim, store_sales, item
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manufact_id = 8 AND d_moy = 11
GROUP BY d_year, i_brand_id, i_brand ORDER BY d_year, sales DESC;

-- 4. Which customers' spending by catalog grew faster than in the stores and on the web?
-- refused: DPQ301, it lists customers
WITH yearly AS (
    SELECT customer_sk, d_year, SUM(ss_net_paid) AS store, 0 AS catalog FROM store_sales
    JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY customer_sk, d_year
    UNION ALL SELECT customer_sk, d_year, 0, SUM(cs_net_paid) FROM catalog_sales
    JOIN date_dim ON cs_sold_date_sk = d_date_sk GROUP BY customer_sk, d_year)
SELECT c_customer_id, c_first_name, c_last_name FROM yearly a JOIN yearly b USING (customer_sk)
JOIN customer USING (customer_sk)
WHERE a.d_year = 2001 AND b.d_year = 2002 AND b.catalog / NULLIF(a.catalog, 0) > b.store / NULLIF(a.store, 0);

-- 5. What were sales, returns and profit of each store, catalog page and web site in two weeks?
WITH stores AS (
    SELECT s_store_id, SUM(sales) AS sales, SUM(returned) AS returned, SUM(profit) AS profit
    FROM (SELECT ss_store_sk AS place, ss_sold_date_sk AS date_sk, ss_ext_sales_price AS sales, 0 AS returned,
        ss_net_profit AS profit FROM store_sales
        UNION ALL SELECT sr_store_sk, sr_returned_date_sk, 0, sr_return_amt, -sr_net_loss FROM store_returns)
    JOIN date_dim ON date_sk = d_date_sk JOIN store ON place = s_store_sk
    WHERE d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-06' GROUP BY s_store_id),
pages AS (
    SELECT cp_catalog_page_id, SUM(sales) AS sales, SUM(returned) AS returned, SUM(profit) AS profit
    FROM (SELECT cs_catalog_page_sk AS place, cs_sold_date_sk AS date_sk, cs_ext_sales_price AS sales, 0 AS returned,
        cs_net_profit AS profit FROM catalog_sales
        UNION ALL SELECT cr_catalog_page_sk, cr_returned_date_sk, 0, cr_return_amount, -cr_net_loss
        FROM catalog_returns)
    JOIN date_dim ON date_sk = d_date_sk JOIN catalog_page ON place = cp_catalog_page_sk
    WHERE d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-06' GROUP BY cp_catalog_page_id),
sites AS (
    SELECT web_site_id, SUM(sales) AS sales, SUM(returned) AS returned, SUM(profit) AS profit
    FROM (SELECT ws_web_site_sk AS place, ws_sold_date_sk AS date_sk, ws_ext_sales_price AS sales, 0 AS returned,
        ws_net_profit AS profit FROM web_sales
        UNION ALL SELECT ws_web_site_sk, wr_returned_date_sk, 0, wr_return_amt, -wr_net_loss
        FROM web_returns r JOIN web_sales s ON r.customer_sk = s.customer_sk AND wr_item_sk = ws_item_sk
            AND wr_order_number = ws_order_number)
    JOIN date_dim ON date_sk = d_date_sk JOIN web_site ON place = web_site_sk
    WHERE d_date BETWEEN DATE '2000-08-23' AND DATE '2000-09-06' GROUP BY web_site_id)
SELECT channel, id, SUM(sales) AS sales, SUM(returned) AS returned, SUM(profit) AS profit
FROM (SELECT 'store' AS channel, s_store_id AS id, sales, returned, profit FROM stores
    UNION ALL SELECT 'catalog', cp_catalog_page_id, sales, returned, profit FROM pages
    UNION ALL SELECT 'web', web_site_id, sales, returned, profit FROM sites)
GROUP BY ROLLUP (channel, id) ORDER BY channel, id;

-- 6. In which states do at least 10 customers buy items a fifth dearer than their category?
SELECT ca_state, COUNT(*) AS n FROM customer_address, customer c, store_sales s, date_dim, item i
WHERE ca_address_sk = c_current_addr_sk AND c.customer_sk = s.customer_sk AND ss_sold_date_sk = d_date_sk
    AND ss_item_sk = i_item_sk AND d_year = 2001 AND d_moy = 1
    AND i_current_price > 1.2 * (SELECT AVG(j.i_current_price) FROM item j WHERE j.i_category = i.i_category)
GROUP BY ca_state HAVING COUNT(*) >= 10 ORDER BY n, ca_state;

-- 7. What do single men with a college degree buy at a promotion, on average of each item?
SELECT i_item_id, AVG(ss_quantity) AS quantity, AVG(ss_list_price) AS list_price, AVG(ss_coupon_amt) AS coupon,
    AVG(ss_sales_price) AS price
FROM store_sales, customer_demographics, date_dim, item, promotion
WHERE ss_sold_date_sk = d_date_sk AND ss_item_sk = i_item_sk AND ss_cdemo_sk = cd_demo_sk AND ss_promo_sk = p_promo_sk
    AND cd_gender = 'M' AND cd_marital_status = 'S'
    AND cd_education_status = 'College' AND (p_channel_email = 'N' OR p_channel_event = 'N') AND d_year = 2000
GROUP BY i_item_id HAVING COUNT(*) > 0 ORDER BY i_item_id;

-- 8. What did stores earn in areas where many preferred customers live?
SELECT s_store_name, SUM(ss_net_profit) AS profit FROM store_sales, date_dim, store
WHERE ss_store_sk = s_store_sk AND ss_sold_date_sk = d_date_sk AND d_qoy = 2 AND d_year = 1998
    AND SUBSTR(s_zip, 1, 2) IN (
        SELECT SUBSTR(ca_zip, 1, 2) FROM customer_address, customer
        WHERE ca_address_sk = c_current_addr_sk AND c_preferred_cust_flag = 'Y'
        GROUP BY SUBSTR(ca_zip, 1, 2) HAVING COUNT(*) > 20)
GROUP BY s_store_name HAVING COUNT(*) > 0 ORDER BY s_store_name;

-- 9. In each range of quantities: the average discount if there are many sales, or else the average paid?
SELECT CASE WHEN (SELECT COUNT(*) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 2) > 4000
        THEN (SELECT AVG(ss_ext_discount_amt) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 2)
        ELSE (SELECT AVG(ss_net_paid) FROM store_sales WHERE ss_quantity BETWEEN 1 AND 2) END AS bucket1,
    CASE WHEN (SELECT COUNT(*) FROM store_sales WHERE ss_quantity BETWEEN 3 AND 5) > 9000
        THEN (SELECT AVG(ss_ext_discount_amt) FROM store_sales WHERE ss_quantity BETWEEN 3 AND 5)
        ELSE (SELECT AVG(ss_net_paid) FROM store_sales WHERE ss_quantity BETWEEN 3 AND 5) END AS bucket2;

-- 10. Who in three counties bought in a store, and on the web or by catalog, by demographics?
SELECT cd_gender, cd_marital_status, cd_education_status, COUNT(*) AS n, cd_purchase_estimate, cd_credit_rating,
    cd_dep_count
FROM customer c JOIN customer_address ON c_current_addr_sk = ca_address_sk
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
WHERE ca_county IN ('Rush County', 'Walker County', 'Dona Ana County')
    AND EXISTS (SELECT * FROM store_sales s JOIN date_dim ON ss_sold_date_sk = d_date_sk
        WHERE c.customer_sk = s.customer_sk AND d_year = 2002 AND d_moy BETWEEN 1 AND 4)
    AND (EXISTS (SELECT * FROM web_sales w JOIN date_dim ON ws_sold_date_sk = d_date_sk
        WHERE c.customer_sk = w.customer_sk AND d_year = 2002 AND d_moy BETWEEN 1 AND 4)
        OR EXISTS (SELECT * FROM catalog_sales k JOIN date_dim ON cs_sold_date_sk = d_date_sk
            WHERE c.customer_sk = k.customer_sk AND d_year = 2002 AND d_moy BETWEEN 1 AND 4))
GROUP BY cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating, cd_dep_count
HAVING COUNT(*) > 0
ORDER BY cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating, cd_dep_count;

-- 11. Which customers' spending on the web grew faster than in the stores?
-- refused: DPQ301, it lists customers
WITH store AS (SELECT customer_sk, d_year, SUM(ss_ext_list_price - ss_ext_discount_amt) AS total FROM store_sales
    JOIN date_dim ON ss_sold_date_sk = d_date_sk GROUP BY customer_sk, d_year),
web AS (SELECT customer_sk, d_year, SUM(ws_ext_list_price - ws_ext_discount_amt) AS total FROM web_sales
    JOIN date_dim ON ws_sold_date_sk = d_date_sk GROUP BY customer_sk, d_year)
SELECT c_customer_id, c_first_name, c_last_name, c_preferred_cust_flag
FROM customer JOIN store s1 USING (customer_sk) JOIN store s2 USING (customer_sk) JOIN web w1 USING (customer_sk)
JOIN web w2 USING (customer_sk)
WHERE s1.d_year = 2001 AND s2.d_year = 2002 AND w1.d_year = 2001 AND w2.d_year = 2002
    AND w2.total / NULLIF(w1.total, 0) > s2.total / NULLIF(s1.total, 0)
ORDER BY c_customer_id LIMIT 100;

-- 12. What share of its class does each item have in a month of sales on the web?
SELECT i_item_id, i_item_desc, i_category, i_class, i_current_price, SUM(ws_ext_sales_price) AS revenue,
    SUM(ws_ext_sales_price) * 100 / SUM(SUM(ws_ext_sales_price)) OVER (PARTITION BY i_class) AS share
FROM web_sales, item, date_dim
WHERE ws_item_sk = i_item_sk AND i_category IN ('Sports', 'Books', 'Home') AND ws_sold_date_sk = d_date_sk
    AND d_date BETWEEN DATE '1999-02-22' AND DATE '1999-02-22' + INTERVAL 30 DAY
GROUP BY i_item_id, i_item_desc, i_category, i_class, i_current_price HAVING COUNT(*) > 0 ORDER BY i_category, i_class,
    i_item_id, i_item_desc;

-- 13. What do three kinds of household in three groups of states buy on average?
SELECT AVG(ss_quantity) AS quantity, AVG(ss_ext_sales_price) AS price, AVG(ss_ext_wholesale_cost) AS cost,
    SUM(ss_ext_wholesale_cost) AS total
FROM store_sales, store, customer_demographics, household_demographics, customer_address, date_dim
WHERE s_store_sk = ss_store_sk AND ss_sold_date_sk = d_date_sk AND d_year = 2001
    AND ((ss_hdemo_sk = hd_demo_sk AND cd_demo_sk = ss_cdemo_sk AND cd_marital_status = 'M'
        AND cd_education_status = 'Advanced Degree' AND ss_sales_price BETWEEN 5 AND 15 AND hd_dep_count = 3)
        OR (ss_hdemo_sk = hd_demo_sk AND cd_demo_sk = ss_cdemo_sk AND cd_marital_status = 'S'
            AND cd_education_status = 'College' AND ss_sales_price BETWEEN 2 AND 10 AND hd_dep_count = 1))
    AND ((ss_addr_sk = ca_address_sk AND ca_country = 'United States' AND ca_state IN ('TX', 'OH', 'KY')
        AND ss_net_profit BETWEEN 0 AND 200)
        OR (ss_addr_sk = ca_address_sk AND ca_country = 'United States' AND ca_state IN ('VA', 'TN', 'MS')
            AND ss_net_profit BETWEEN 0.5 AND 200));

-- 14. Which brands, classes and categories that all channels sell have above average sales?
WITH sold AS (
    SELECT 'store' AS channel, ss_item_sk AS item_sk, ss_quantity * ss_list_price AS price, ss_sold_date_sk AS date_sk
    FROM store_sales
    UNION ALL SELECT 'catalog', cs_item_sk, cs_quantity * cs_list_price, cs_sold_date_sk FROM catalog_sales
    UNION ALL SELECT 'web', ws_item_sk, ws_quantity * ws_list_price, ws_sold_date_sk FROM web_sales),
totals AS (
    SELECT channel, i_brand_id, i_class_id, i_category_id, SUM(price) AS sales, COUNT(*) AS n FROM sold
    JOIN item ON item_sk = i_item_sk JOIN date_dim ON date_sk = d_date_sk
    WHERE channel IN ('store', 'catalog', 'web') AND d_year = 2001 AND d_moy = 11
    GROUP BY channel, i_brand_id, i_class_id, i_category_id HAVING COUNT(*) > 0),
everywhere AS (
    SELECT i_brand_id, i_class_id, i_category_id FROM totals WHERE channel = 'store'
    INTERSECT SELECT i_brand_id, i_class_id, i_category_id FROM totals WHERE channel = 'catalog'
    INTERSECT SELECT i_brand_id, i_class_id, i_category_id FROM totals WHERE channel = 'web')
SELECT channel, i_brand_id, i_class_id, i_category_id, SUM(sales) AS sales, SUM(n) AS n FROM totals
JOIN everywhere USING (i_brand_id, i_class_id, i_category_id)
WHERE sales > (SELECT AVG(sales) FROM totals) GROUP BY ROLLUP (channel, i_brand_id, i_class_id, i_category_id)
ORDER BY ALL;

-- 15. What do customers of some areas, or who pay much, buy by catalog?
SELECT ca_zip, SUM(cs_sales_price) AS sales FROM catalog_sales s, customer c, customer_address, date_dim
WHERE s.customer_sk = c.customer_sk AND c_current_addr_sk = ca_address_sk AND cs_sold_date_sk = d_date_sk AND d_qoy = 2
    AND d_year = 2001
    AND (SUBSTR(ca_zip, 1, 3) IN ('247', '254') OR ca_state IN ('CA', 'WA', 'GA') OR cs_sales_price > 15)
GROUP BY ca_zip HAVING COUNT(*) > 0 ORDER BY ca_zip;

-- 16. How many orders to Georgia came from several warehouses, and nothing of them was returned?
SELECT COUNT(DISTINCT cs_order_number) AS orders, SUM(cs_ext_ship_cost) AS shipping, SUM(cs_net_profit) AS profit
FROM catalog_sales a JOIN date_dim ON cs_ship_date_sk = d_date_sk
JOIN customer_address ON cs_ship_addr_sk = ca_address_sk JOIN call_center ON cs_call_center_sk = cc_call_center_sk
WHERE d_date BETWEEN DATE '2002-02-01' AND DATE '2002-04-02' AND ca_state = 'GA'
    AND EXISTS (SELECT * FROM catalog_sales b WHERE a.customer_sk = b.customer_sk
        AND a.cs_order_number = b.cs_order_number AND a.cs_warehouse_sk <> b.cs_warehouse_sk)
    AND NOT EXISTS (SELECT * FROM catalog_returns r WHERE a.customer_sk = r.customer_sk
        AND a.cs_order_number = cr_order_number);

-- 17. How many pieces of an item are bought in a store, returned, and bought by catalog?
SELECT i_item_id, s_state, COUNT(ss_quantity) AS n, AVG(ss_quantity) AS sold, AVG(sr_return_quantity) AS returned,
    AVG(cs_quantity) AS by_catalog
FROM store_sales s JOIN store_returns r ON s.customer_sk = r.customer_sk AND ss_item_sk = sr_item_sk
    AND ss_ticket_number = sr_ticket_number
JOIN catalog_sales k ON r.customer_sk = k.customer_sk AND sr_item_sk = cs_item_sk
JOIN date_dim a ON a.d_date_sk = ss_sold_date_sk JOIN store ON s_store_sk = ss_store_sk
JOIN item ON i_item_sk = ss_item_sk
WHERE a.d_year BETWEEN 1998 AND 2002 GROUP BY i_item_id, s_state HAVING COUNT(*) > 0 ORDER BY i_item_id, s_state;

-- 18. What do women born in some months buy by catalog, on average by item and place?
SELECT i_item_id, ca_country, ca_state, ca_county, AVG(cs_quantity) AS quantity, AVG(cs_list_price) AS list_price,
    AVG(cs_sales_price) AS price, AVG(cs_net_profit) AS profit
FROM catalog_sales s, customer_demographics, customer c, customer_address, date_dim, item
WHERE cs_sold_date_sk = d_date_sk AND cs_item_sk = i_item_sk AND cs_bill_cdemo_sk = cd_demo_sk
    AND s.customer_sk = c.customer_sk AND cd_gender = 'F'
    AND c_current_addr_sk = ca_address_sk AND c_birth_month IN (1, 6, 8, 9, 12, 2) AND d_year = 1998
        AND ca_state IN ('MS', 'IN', 'NM', 'OK', 'VA')
GROUP BY ROLLUP (i_item_id, ca_country, ca_state, ca_county) HAVING COUNT(*) > 0 ORDER BY ca_country, ca_state,
    ca_county, i_item_id;

-- 19. What do brands of a manager sell to customers from another area than the store's?
SELECT i_brand_id, i_brand, i_manufact_id, i_manufact, SUM(ss_ext_sales_price) AS sales
FROM date_dim, store_sales s, item, customer c, customer_address, store
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manager_id = 8 AND d_moy = 11 AND d_year = 1998
    AND s.customer_sk = c.customer_sk
    AND c_current_addr_sk = ca_address_sk AND SUBSTR(ca_zip, 1, 5) <> SUBSTR(s_zip, 1, 5) AND ss_store_sk = s_store_sk
GROUP BY i_brand_id, i_brand, i_manufact_id, i_manufact HAVING COUNT(*) > 0 ORDER BY sales DESC, i_brand_id;

-- 20. What share of its class does each item have in a month of sales by catalog?
SELECT i_item_id, i_item_desc, i_category, i_class, i_current_price, SUM(cs_ext_sales_price) AS revenue,
    SUM(cs_ext_sales_price) * 100 / SUM(SUM(cs_ext_sales_price)) OVER (PARTITION BY i_class) AS share
FROM catalog_sales, item, date_dim
WHERE cs_item_sk = i_item_sk AND i_category IN ('Sports', 'Books', 'Home') AND cs_sold_date_sk = d_date_sk
    AND d_date BETWEEN DATE '1999-02-22' AND DATE '1999-02-22' + INTERVAL 30 DAY
GROUP BY i_item_id, i_item_desc, i_category, i_class, i_current_price HAVING COUNT(*) > 0 ORDER BY i_category, i_class,
    i_item_id, i_item_desc;

-- 21. Whose stock changed little between the weeks before a day and after it, by warehouse and item?
SELECT w_warehouse_name, i_item_id, SUM(CASE WHEN d_date < DATE '2000-03-11' THEN inv_quantity_on_hand
    ELSE 0 END) AS before, SUM(CASE WHEN d_date >= DATE '2000-03-11' THEN inv_quantity_on_hand ELSE 0 END) AS after
FROM inventory, warehouse, item, date_dim
WHERE i_current_price BETWEEN 10 AND 60 AND i_item_sk = inv_item_sk AND inv_warehouse_sk = w_warehouse_sk
    AND inv_date_sk = d_date_sk AND d_date BETWEEN DATE '2000-02-10' AND DATE '2000-04-10'
GROUP BY w_warehouse_name, i_item_id
HAVING SUM(CASE WHEN d_date >= DATE '2000-03-11' THEN inv_quantity_on_hand
    ELSE 0 END) / NULLIF(SUM(CASE WHEN d_date < DATE '2000-03-11' THEN inv_quantity_on_hand ELSE 0 END),
    0) BETWEEN 0.66 AND 1.5
ORDER BY w_warehouse_name, i_item_id;

-- 22. How large is the stock on average in a year, by product, brand, class and category?
SELECT i_product_name, i_brand, i_class, i_category, AVG(inv_quantity_on_hand) AS stock FROM inventory
JOIN date_dim ON inv_date_sk = d_date_sk JOIN item ON inv_item_sk = i_item_sk
WHERE d_month_seq BETWEEN 1200 AND 1211 GROUP BY ROLLUP (i_product_name, i_brand, i_class, i_category) ORDER BY stock,
    i_product_name, i_brand, i_class, i_category LIMIT 100;

-- 23. What do the best customers pay in a month, by catalog and on the web, for books often sold in stores?
WITH frequent AS (
    SELECT i_item_sk FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN item ON ss_item_sk = i_item_sk
    WHERE d_year IN (2000, 2001, 2002) AND i_category = 'Books' GROUP BY i_item_sk HAVING COUNT(*) > 120),
best AS (
    SELECT customer_sk FROM store_sales GROUP BY customer_sk
    HAVING SUM(ss_quantity * ss_sales_price) > 0.5 * (SELECT MAX(total)
        FROM (SELECT customer_sk, SUM(ss_quantity * ss_sales_price) AS total FROM store_sales GROUP BY customer_sk)))
SELECT SUM(sales) AS sales FROM (
    SELECT customer_sk, cs_quantity * cs_list_price AS sales FROM catalog_sales
    JOIN date_dim ON cs_sold_date_sk = d_date_sk
    WHERE d_year = 2000 AND d_moy = 2 AND cs_item_sk IN (SELECT i_item_sk FROM frequent)
        AND customer_sk IN (SELECT customer_sk FROM best)
    UNION ALL SELECT customer_sk, ws_quantity * ws_list_price FROM web_sales
    JOIN date_dim ON ws_sold_date_sk = d_date_sk
    WHERE d_year = 2000 AND d_moy = 2 AND ws_item_sk IN (SELECT i_item_sk FROM frequent)
        AND customer_sk IN (SELECT customer_sk FROM best));

-- 24. Which customers paid much for peach items that they returned, at stores of their area?
-- differs: alone
-- found: SELECT c_last_name, c_first_name FROM (SELECT s.customer_sk, c_last_name, c_first_name FROM store_sales s JOIN customer c USING (customer_sk) JOIN store_returns r ON s.customer_sk = r.customer_sk AND ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk JOIN store ON ss_store_sk = s_store_sk JOIN item ON ss_item_sk = i_item_sk JOIN customer_address ON c_current_addr_sk = ca_address_sk WHERE i_color = 'peach' AND s_zip = ca_zip) GROUP BY ALL HAVING COUNT(DISTINCT customer_sk) > 1
SELECT c_last_name, c_first_name, s_store_name, SUM(ss_net_paid) AS paid
FROM store_sales s JOIN store_returns r ON s.customer_sk = r.customer_sk AND ss_ticket_number = sr_ticket_number
    AND ss_item_sk = sr_item_sk
JOIN customer c ON s.customer_sk = c.customer_sk JOIN store ON ss_store_sk = s_store_sk
JOIN item ON ss_item_sk = i_item_sk JOIN customer_address ON c_current_addr_sk = ca_address_sk
WHERE i_color = 'peach' AND s_zip = ca_zip GROUP BY c_last_name, c_first_name, s_store_name HAVING SUM(ss_net_paid) > 1;

-- 25. What do items earn that are bought in a store, returned, and bought by catalog?
SELECT i_item_id, i_item_desc, s_store_id, s_store_name, SUM(ss_net_profit) AS store_profit, SUM(sr_net_loss) AS loss,
    SUM(cs_net_profit) AS catalog_profit
FROM store_sales s, store_returns r, catalog_sales k, date_dim a, store, item
WHERE a.d_date_sk = ss_sold_date_sk AND a.d_year BETWEEN 1998 AND 2002 AND i_item_sk = ss_item_sk
    AND s_store_sk = ss_store_sk
    AND s.customer_sk = r.customer_sk AND ss_item_sk = sr_item_sk AND ss_ticket_number = sr_ticket_number
        AND r.customer_sk = k.customer_sk AND sr_item_sk = cs_item_sk
GROUP BY i_item_id, i_item_desc, s_store_id, s_store_name HAVING COUNT(*) > 0 ORDER BY i_item_id, i_item_desc,
    s_store_id;

-- 26. What do single men with a college degree order by catalog at a promotion, on average of each item?
SELECT i_item_id, AVG(cs_quantity) AS quantity, AVG(cs_list_price) AS list_price, AVG(cs_coupon_amt) AS coupon,
    AVG(cs_sales_price) AS price
FROM catalog_sales, customer_demographics, date_dim, item, promotion
WHERE cs_sold_date_sk = d_date_sk AND cs_item_sk = i_item_sk AND cs_bill_cdemo_sk = cd_demo_sk
    AND cs_promo_sk = p_promo_sk AND cd_gender = 'M' AND cd_marital_status = 'S'
    AND cd_education_status = 'College' AND (p_channel_email = 'N' OR p_channel_event = 'N') AND d_year = 2000
GROUP BY i_item_id HAVING COUNT(*) > 0 ORDER BY i_item_id;

-- 27. What do single men with a college degree buy in stores, on average by item and state?
SELECT i_item_id, s_state, GROUPING(s_state) AS all_states, AVG(ss_quantity) AS quantity,
    AVG(ss_list_price) AS list_price, AVG(ss_coupon_amt) AS coupon, AVG(ss_sales_price) AS price
FROM store_sales, customer_demographics, date_dim, store, item
WHERE ss_sold_date_sk = d_date_sk AND ss_item_sk = i_item_sk AND ss_store_sk = s_store_sk AND ss_cdemo_sk = cd_demo_sk
    AND cd_gender = 'M' AND cd_marital_status = 'S'
    AND cd_education_status = 'College' AND d_year = 2002 AND s_state IN ('TN', 'GA')
GROUP BY ROLLUP (i_item_id, s_state) HAVING COUNT(*) > 0 ORDER BY i_item_id, s_state;

-- 28. What is the average list price, and how many are there, in ranges of quantities?
SELECT * FROM (SELECT AVG(ss_list_price) AS mean1, COUNT(ss_list_price) AS n1, COUNT(DISTINCT ss_list_price) AS prices1
    FROM store_sales
    WHERE ss_quantity BETWEEN 1 AND 5 AND (ss_list_price BETWEEN 0.8 AND 1.8 OR ss_coupon_amt BETWEEN 4.5 AND 14.5
        OR ss_wholesale_cost BETWEEN 5.7 AND 7.7)) AS a,
(SELECT AVG(ss_list_price) AS mean2, COUNT(ss_list_price) AS n2, COUNT(DISTINCT ss_list_price) AS prices2
    FROM store_sales
    WHERE ss_quantity BETWEEN 6 AND 10 AND (ss_list_price BETWEEN 9 AND 10 OR ss_coupon_amt BETWEEN 20 AND 30
        OR ss_wholesale_cost BETWEEN 3.1 AND 5.1)) AS b;

-- 29. How many pieces are bought in a store, returned, and bought by catalog, by item and store?
SELECT i_item_id, i_item_desc, s_store_id, s_store_name, SUM(ss_quantity) AS sold, SUM(sr_return_quantity) AS returned,
    SUM(cs_quantity) AS by_catalog
FROM store_sales s, store_returns r, catalog_sales k, date_dim a, date_dim b, store, item
WHERE a.d_moy = 9 AND a.d_date_sk = ss_sold_date_sk AND i_item_sk = ss_item_sk AND s_store_sk = ss_store_sk
    AND b.d_date_sk = sr_returned_date_sk AND b.d_moy BETWEEN 9 AND 12
    AND s.customer_sk = r.customer_sk AND ss_item_sk = sr_item_sk AND ss_ticket_number = sr_ticket_number
        AND r.customer_sk = k.customer_sk AND sr_item_sk = cs_item_sk
GROUP BY i_item_id, i_item_desc, s_store_id, s_store_name HAVING COUNT(*) > 0 ORDER BY i_item_id, i_item_desc,
    s_store_id;

-- 30. Which customers in Georgia returned more to the web than is usual in the state?
-- refused: DPQ301, it lists customers
WITH returned AS (
    SELECT customer_sk, ca_state, SUM(wr_return_amt) AS total FROM web_returns, date_dim, customer_address
    WHERE wr_returned_date_sk = d_date_sk AND d_year = 2002 AND wr_returning_addr_sk = ca_address_sk
    GROUP BY customer_sk, ca_state)
SELECT c_customer_id, c_salutation, c_first_name, c_last_name, total FROM returned JOIN customer USING (customer_sk)
WHERE ca_state = 'GA' AND total > 1.2 * (SELECT AVG(total) FROM returned WHERE ca_state = 'GA') ORDER BY c_customer_id
LIMIT 100;

-- 31. In which counties do sales on the web grow faster than in the stores, from quarter to quarter?
WITH stores AS (
    SELECT ca_county, d_qoy, d_year, SUM(ss_ext_sales_price) AS sales FROM store_sales, date_dim, customer_address
    WHERE ss_sold_date_sk = d_date_sk AND ss_addr_sk = ca_address_sk GROUP BY ca_county, d_qoy, d_year),
web AS (
    SELECT ca_county, d_qoy, d_year, SUM(ws_ext_sales_price) AS sales FROM web_sales, date_dim, customer_address
    WHERE ws_sold_date_sk = d_date_sk AND ws_bill_addr_sk = ca_address_sk GROUP BY ca_county, d_qoy, d_year)
SELECT s1.ca_county, s1.d_year, w2.sales / w1.sales AS web_growth, s2.sales / s1.sales AS store_growth
FROM stores s1 JOIN stores s2 ON s1.ca_county = s2.ca_county AND s1.d_year = s2.d_year AND s1.d_qoy = 1 AND s2.d_qoy = 2
JOIN web w1 ON s1.ca_county = w1.ca_county AND w1.d_year = s1.d_year AND w1.d_qoy = 1
JOIN web w2 ON s1.ca_county = w2.ca_county AND w2.d_year = s1.d_year AND w2.d_qoy = 2
WHERE s1.d_year = 2000 AND w2.sales / NULLIF(w1.sales, 0) > s2.sales / NULLIF(s1.sales, 0) ORDER BY s1.ca_county;

-- 32. How much discount by catalog was over 1.3 times the average of its item?
SELECT SUM(cs_ext_discount_amt) AS excess
FROM catalog_sales JOIN item ON i_item_sk = cs_item_sk JOIN date_dim ON d_date_sk = cs_sold_date_sk JOIN (
    SELECT i_item_sk AS mean_of, AVG(cs_ext_discount_amt) AS mean FROM catalog_sales
    JOIN item ON cs_item_sk = i_item_sk JOIN date_dim ON d_date_sk = cs_sold_date_sk
    WHERE d_date BETWEEN DATE '2000-01-27' AND DATE '2000-04-26' AND i_manufact_id = 7
    GROUP BY i_item_sk) ON mean_of = cs_item_sk
WHERE i_manufact_id = 7 AND d_date BETWEEN DATE '2000-01-27' AND DATE '2000-04-26' AND cs_ext_discount_amt > 1.3 * mean;

-- 33. What do makers of electronics sell in all channels in a month?
WITH sold AS (
    SELECT ss_item_sk AS item_sk, ss_sold_date_sk AS date_sk, ss_addr_sk AS address_sk, ss_ext_sales_price AS price
    FROM store_sales
    UNION ALL SELECT cs_item_sk, cs_sold_date_sk, cs_bill_addr_sk, cs_ext_sales_price FROM catalog_sales
    UNION ALL SELECT ws_item_sk, ws_sold_date_sk, ws_bill_addr_sk, ws_ext_sales_price FROM web_sales)
SELECT i_manufact_id, SUM(price) AS sales FROM sold, item, date_dim, customer_address
WHERE item_sk = i_item_sk AND date_sk = d_date_sk AND address_sk = ca_address_sk AND d_year = 1998 AND d_moy = 5
    AND ca_gmt_offset = -5
    AND i_manufact_id IN (SELECT i_manufact_id FROM item WHERE i_category = 'Electronics')
GROUP BY i_manufact_id ORDER BY sales;

-- 34. Which customers with cars buy tickets of many items early or late in a month?
-- refused: DPQ301, it lists customers
SELECT c_last_name, c_first_name, c_salutation, ss_ticket_number, n FROM customer JOIN (
    SELECT customer_sk, ss_ticket_number, COUNT(*) AS n FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk
    JOIN household_demographics ON ss_hdemo_sk = hd_demo_sk
    WHERE (d_dom BETWEEN 1 AND 3 OR d_dom BETWEEN 25 AND 28) AND hd_vehicle_count > 0
    GROUP BY customer_sk, ss_ticket_number) USING (customer_sk)
WHERE n BETWEEN 3 AND 20 ORDER BY c_last_name, c_first_name;

-- 35. Who bought in a store, and on the web or by catalog: numbers and dependants, by state and demographics?
SELECT ca_state, cd_gender, cd_marital_status, COUNT(*) AS n, AVG(cd_dep_count) AS mean,
    SUM(cd_dep_employed_count) AS employed
FROM customer c JOIN customer_address ON c_current_addr_sk = ca_address_sk
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
WHERE EXISTS (SELECT * FROM store_sales s JOIN date_dim ON ss_sold_date_sk = d_date_sk
    WHERE c.customer_sk = s.customer_sk AND d_year = 2002 AND d_qoy < 4)
    AND (EXISTS (SELECT * FROM web_sales w JOIN date_dim ON ws_sold_date_sk = d_date_sk
        WHERE c.customer_sk = w.customer_sk AND d_year = 2002 AND d_qoy < 4)
        OR EXISTS (SELECT * FROM catalog_sales k JOIN date_dim ON cs_sold_date_sk = d_date_sk
            WHERE c.customer_sk = k.customer_sk AND d_year = 2002 AND d_qoy < 4))
GROUP BY ca_state, cd_gender, cd_marital_status HAVING COUNT(*) > 0 ORDER BY ca_state, cd_gender, cd_marital_status;

-- 36. What is the gross margin of categories and their classes, and their rank?
SELECT SUM(ss_net_profit) / SUM(ss_ext_sales_price) AS margin, i_category, i_class,
    GROUPING(i_category) + GROUPING(i_class) AS level,
    RANK() OVER (PARTITION BY GROUPING(i_category) + GROUPING(i_class), CASE
        WHEN GROUPING(i_class) = 0 THEN i_category END ORDER BY SUM(ss_net_profit) / SUM(ss_ext_sales_price)) AS place
FROM store_sales, date_dim, item, store
WHERE d_year = 2001 AND d_date_sk = ss_sold_date_sk AND i_item_sk = ss_item_sk AND s_store_sk = ss_store_sk
    AND s_state IN ('TN', 'GA')
GROUP BY ROLLUP (i_category, i_class) ORDER BY level DESC, i_category, place;

-- 37. Which items of some makers were in stock, and sold by catalog?
SELECT i_item_id, i_item_desc, i_current_price FROM item, catalog_sales
WHERE cs_item_sk = i_item_sk AND i_current_price BETWEEN 20 AND 60 AND i_manufact_id IN (3, 5, 7, 9) AND i_item_sk IN (
    SELECT inv_item_sk FROM inventory JOIN date_dim ON d_date_sk = inv_date_sk
    WHERE d_date BETWEEN DATE '2000-02-01' AND DATE '2000-04-01' AND inv_quantity_on_hand BETWEEN 10 AND 12)
GROUP BY i_item_id, i_item_desc, i_current_price HAVING COUNT(*) > 0 ORDER BY i_item_id, i_item_desc;

-- 38. How many customers bought in all three channels within the same month?
SELECT COUNT(*) AS n FROM (
    SELECT customer_sk, d_month_seq FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_year = 2000
    INTERSECT SELECT customer_sk, d_month_seq FROM catalog_sales JOIN date_dim ON cs_sold_date_sk = d_date_sk
    WHERE d_year = 2000
    INTERSECT SELECT customer_sk, d_month_seq FROM web_sales JOIN date_dim ON ws_sold_date_sk = d_date_sk
    WHERE d_year = 2000);

-- 39. Where does stock vary much in two months, by warehouse and item?
WITH monthly AS (
    SELECT w_warehouse_sk, i_item_sk, d_qoy, STDDEV_SAMP(inv_quantity_on_hand) AS deviation,
        AVG(inv_quantity_on_hand) AS mean FROM inventory, item, warehouse, date_dim
    WHERE inv_item_sk = i_item_sk AND inv_warehouse_sk = w_warehouse_sk AND inv_date_sk = d_date_sk AND d_year = 2001
    GROUP BY w_warehouse_sk, i_item_sk, d_qoy)
SELECT a.w_warehouse_sk, a.i_item_sk, a.mean, a.deviation / a.mean AS cov1, b.mean AS mean2,
    b.deviation / b.mean AS cov2 FROM monthly a JOIN monthly b ON a.i_item_sk = b.i_item_sk
    AND a.w_warehouse_sk = b.w_warehouse_sk
WHERE a.d_qoy = 1 AND b.d_qoy = 2 AND a.deviation / a.mean > 0.9 AND b.deviation / b.mean > 0.9
ORDER BY a.w_warehouse_sk, a.i_item_sk;

-- 40. What was sold by catalog less what was returned, before a day and after it, by state and item?
SELECT w_state, i_item_id, SUM(CASE WHEN d_date < DATE '2000-03-11' THEN cs_sales_price - COALESCE(cr_refunded_cash, 0)
    ELSE 0 END) AS before,
    SUM(CASE WHEN d_date >= DATE '2000-03-11' THEN cs_sales_price - COALESCE(cr_refunded_cash, 0) ELSE 0 END) AS after
FROM catalog_sales s LEFT JOIN catalog_returns r ON s.customer_sk = r.customer_sk AND cs_order_number = cr_order_number
    AND cs_item_sk = cr_item_sk
JOIN warehouse ON cs_warehouse_sk = w_warehouse_sk JOIN item ON i_item_sk = cs_item_sk
JOIN date_dim ON cs_sold_date_sk = d_date_sk
WHERE i_current_price BETWEEN 10 AND 60 AND d_date BETWEEN DATE '2000-02-10' AND DATE '2000-04-10'
GROUP BY w_state, i_item_id HAVING COUNT(*) > 0 ORDER BY w_state, i_item_id;

-- 41. Which products come from makers that have items of certain colours, units and sizes?
SELECT DISTINCT i_product_name FROM item a WHERE i_manufact_id BETWEEN 5 AND 12
    AND (SELECT COUNT(*) FROM item b WHERE b.i_manufact = a.i_manufact
        AND ((i_category = 'Women' AND i_color IN ('red', 'blue', 'peach') AND i_size IN ('small', 'medium', 'petite'))
        OR (i_category = 'Men' AND i_color IN ('slate', 'ivory', 'green') AND i_units IN ('Each', 'Dozen', 'Oz')))) > 0
ORDER BY i_product_name LIMIT 100;

-- 42. What did each category of a manager sell in a month?
SELECT d_year, i_category_id, i_category, SUM(ss_ext_sales_price) AS sales FROM date_dim, store_sales, item
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manager_id = 1 AND d_moy = 11 AND d_year = 2000
GROUP BY d_year, i_category_id, i_category ORDER BY sales DESC, d_year, i_category_id;

-- 43. What did each store sell on each day of the week?
SELECT s_store_name, s_store_id, SUM(CASE WHEN d_day_name = 'Sunday' THEN ss_sales_price END) AS sun,
    SUM(CASE WHEN d_day_name = 'Monday' THEN ss_sales_price END) AS mon,
    SUM(CASE WHEN d_day_name = 'Tuesday' THEN ss_sales_price END) AS tue,
        SUM(CASE WHEN d_day_name = 'Wednesday' THEN ss_sales_price END) AS wed,
    SUM(CASE WHEN d_day_name = 'Thursday' THEN ss_sales_price END) AS thu,
        SUM(CASE WHEN d_day_name = 'Friday' THEN ss_sales_price END) AS fri,
        SUM(CASE WHEN d_day_name = 'Saturday' THEN ss_sales_price END) AS sat
FROM date_dim, store_sales, store WHERE d_date_sk = ss_sold_date_sk AND s_store_sk = ss_store_sk AND s_gmt_offset = -5
    AND d_year = 2000
GROUP BY s_store_name, s_store_id ORDER BY s_store_name, s_store_id;

-- 44. Which items earn most and least at a store, on average?
WITH mean AS (SELECT i_item_sk, i_product_name, AVG(ss_net_profit) AS profit FROM store_sales
    JOIN item ON ss_item_sk = i_item_sk WHERE ss_store_sk = 4 GROUP BY i_item_sk, i_product_name),
ranked AS (SELECT i_product_name, RANK() OVER (ORDER BY profit) AS worst, RANK() OVER (ORDER BY profit DESC) AS best
    FROM mean WHERE profit > (SELECT 0.1 * AVG(ss_net_profit) FROM store_sales WHERE ss_store_sk = 4))
SELECT a.best, a.i_product_name AS best_product, b.i_product_name AS worst_product FROM ranked a
JOIN ranked b ON a.best = b.worst WHERE a.best < 11 ORDER BY a.best;

-- 45. What do customers of some areas, or buyers of some items, pay on the web?
SELECT ca_zip, ca_city, SUM(ws_sales_price) AS sales FROM web_sales s, customer c, customer_address, date_dim, item
WHERE s.customer_sk = c.customer_sk AND c_current_addr_sk = ca_address_sk AND ws_item_sk = i_item_sk
    AND ws_sold_date_sk = d_date_sk AND d_qoy = 2 AND d_year = 2001
    AND (SUBSTR(ca_zip, 1, 5) IN ('24731', '25462', '26193') OR i_item_id IN (SELECT i_item_id FROM item
        WHERE i_item_sk IN (2, 3, 5, 7, 11, 13, 17, 19, 23, 29)))
GROUP BY ca_zip, ca_city HAVING COUNT(*) > 0 ORDER BY ca_zip, ca_city;

-- 46. Which customers shop at weekends in another city than they live in?
-- refused: DPQ301, it lists customers
SELECT c_last_name, c_first_name, a.ca_city, b.ca_city AS bought_city, ss_ticket_number, coupon FROM (
    SELECT customer_sk, ss_ticket_number, ss_addr_sk, SUM(ss_coupon_amt) AS coupon FROM store_sales
    JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_dow IN (6, 0)
    GROUP BY customer_sk, ss_ticket_number, ss_addr_sk) t
JOIN customer USING (customer_sk) JOIN customer_address a ON c_current_addr_sk = a.ca_address_sk
JOIN customer_address b ON ss_addr_sk = b.ca_address_sk
WHERE a.ca_city <> b.ca_city ORDER BY c_last_name, c_first_name LIMIT 100;

-- 47. Which months of a brand and store are far from the mean of their year, with the months beside?
WITH monthly AS (
    SELECT i_category, i_brand, s_store_name, d_year, d_moy, SUM(ss_sales_price) AS sales
    FROM item, store_sales, date_dim, store
    WHERE ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk AND ss_store_sk = s_store_sk AND d_year = 1999
        AND i_category IN ('Books', 'Home', 'Music')
    GROUP BY i_category, i_brand, s_store_name, d_year, d_moy HAVING COUNT(*) > 0),
beside AS (
    SELECT *, AVG(sales) OVER (PARTITION BY i_category, i_brand, s_store_name, d_year) AS mean, LAG(sales)
        OVER (PARTITION BY i_category, i_brand, s_store_name ORDER BY d_year, d_moy) AS before,
        LEAD(sales) OVER (PARTITION BY i_category, i_brand, s_store_name ORDER BY d_year, d_moy) AS after FROM monthly)
SELECT * FROM beside WHERE mean > 0 AND ABS(sales - mean) / mean > 0.1 ORDER BY i_category, i_brand, s_store_name,
    d_year, d_moy;

-- 48. How many pieces do three kinds of customers in three groups of states buy?
SELECT SUM(ss_quantity) AS quantity FROM store_sales, store, customer_demographics, customer_address, date_dim
WHERE s_store_sk = ss_store_sk AND ss_sold_date_sk = d_date_sk AND d_year = 2000
    AND ((cd_demo_sk = ss_cdemo_sk AND cd_marital_status = 'M' AND cd_education_status = '4 yr Degree'
        AND ss_sales_price BETWEEN 2 AND 15)
        OR (cd_demo_sk = ss_cdemo_sk AND cd_marital_status = 'D' AND cd_education_status = '2 yr Degree'
            AND ss_sales_price BETWEEN 5 AND 10))
    AND ((ss_addr_sk = ca_address_sk AND ca_country = 'United States' AND ca_state IN ('CA', 'OH', 'TX')
        AND ss_net_profit BETWEEN 0 AND 20)
        OR (ss_addr_sk = ca_address_sk AND ca_country = 'United States' AND ca_state IN ('IL', 'KY', 'MS')
            AND ss_net_profit BETWEEN 1.5 AND 30));

-- 49. Which items have the worst ratio of returns, in each channel?
WITH web AS (
    SELECT i_item_sk, SUM(COALESCE(wr_return_quantity, 0)) / SUM(ws_quantity) AS returned,
        SUM(COALESCE(wr_return_amt, 0)) / SUM(ws_net_paid) AS refunded
    FROM web_sales s LEFT JOIN web_returns r ON s.customer_sk = r.customer_sk AND ws_order_number = wr_order_number
        AND ws_item_sk = wr_item_sk JOIN item ON ws_item_sk = i_item_sk
    WHERE ws_net_profit > 0.1 GROUP BY i_item_sk),
stores AS (
    SELECT i_item_sk, SUM(COALESCE(sr_return_quantity, 0)) / SUM(ss_quantity) AS returned,
        SUM(COALESCE(sr_return_amt, 0)) / SUM(ss_net_paid) AS refunded
    FROM store_sales s LEFT JOIN store_returns r ON s.customer_sk = r.customer_sk
        AND ss_ticket_number = sr_ticket_number AND ss_item_sk = sr_item_sk JOIN item ON ss_item_sk = i_item_sk
    WHERE ss_net_profit > 0.1 GROUP BY i_item_sk)
SELECT * FROM (SELECT 'web' AS channel, i_item_sk, returned, RANK() OVER (ORDER BY returned DESC) AS by_number, RANK()
    OVER (ORDER BY refunded DESC) AS by_amount FROM web
    UNION ALL SELECT 'store', i_item_sk, returned, RANK() OVER (ORDER BY returned DESC), RANK()
        OVER (ORDER BY refunded DESC) FROM stores)
WHERE by_number <= 10 OR by_amount <= 10 ORDER BY channel, by_number, by_amount, i_item_sk;

-- 50. After how many days are items returned to each store?
SELECT s_store_name, s_city, s_state, s_zip, SUM(CASE WHEN sr_returned_date_sk - ss_sold_date_sk <= 30 THEN 1
    ELSE 0 END) AS days30,
    SUM(CASE WHEN sr_returned_date_sk - ss_sold_date_sk > 30 AND sr_returned_date_sk - ss_sold_date_sk <= 60 THEN 1
        ELSE 0 END) AS days60,
    SUM(CASE WHEN sr_returned_date_sk - ss_sold_date_sk > 60 AND sr_returned_date_sk - ss_sold_date_sk <= 90 THEN 1
        ELSE 0 END) AS days90,
    SUM(CASE WHEN sr_returned_date_sk - ss_sold_date_sk > 90 THEN 1 ELSE 0 END) AS more
FROM store_sales s, store_returns r, store, date_dim
WHERE d_year = 2001 AND d_moy = 8 AND s.customer_sk = r.customer_sk AND ss_ticket_number = sr_ticket_number
    AND ss_item_sk = sr_item_sk AND sr_returned_date_sk = d_date_sk AND ss_store_sk = s_store_sk
GROUP BY s_store_name, s_city, s_state, s_zip ORDER BY s_store_name;

-- 51. Which items have sold half as much on the web as in the stores, or more, up to each month of a year?
WITH web AS (
    SELECT i_item_sk, d_moy, SUM(SUM(ws_sales_price)) OVER (PARTITION BY i_item_sk ORDER BY d_moy) AS total
    FROM web_sales JOIN date_dim ON ws_sold_date_sk = d_date_sk JOIN item ON ws_item_sk = i_item_sk
    WHERE d_year = 2000 AND i_category = 'Books' GROUP BY i_item_sk, d_moy HAVING COUNT(*) > 0),
stores AS (
    SELECT i_item_sk, d_moy, SUM(SUM(ss_sales_price)) OVER (PARTITION BY i_item_sk ORDER BY d_moy) AS total
    FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN item ON ss_item_sk = i_item_sk
    WHERE d_year = 2000 AND i_category = 'Books' GROUP BY i_item_sk, d_moy HAVING COUNT(*) > 0)
SELECT i_item_sk, d_moy, web.total AS web, stores.total AS store FROM web FULL JOIN stores USING (i_item_sk, d_moy)
WHERE web.total > 0.5 * stores.total ORDER BY i_item_sk, d_moy;

-- 52. What did each brand of a manager sell in a month?
SELECT d_year, i_brand_id, i_brand, SUM(ss_ext_sales_price) AS sales FROM date_dim, store_sales, item
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manager_id = 1 AND d_moy = 11 AND d_year = 2000
GROUP BY d_year, i_brand_id, i_brand ORDER BY d_year, sales DESC, i_brand_id;

-- 53. Which quarters of a maker are far from its mean?
SELECT * FROM (
    SELECT i_manufact_id, d_qoy, SUM(ss_sales_price) AS sales, AVG(SUM(ss_sales_price))
        OVER (PARTITION BY i_manufact_id) AS mean FROM item, store_sales, date_dim, store
    WHERE ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk AND ss_store_sk = s_store_sk
        AND d_month_seq IN (1200, 1200 + 1, 1200 + 2, 1200 + 3, 1200 + 4, 1200 + 5, 1200 + 6)
        AND ((i_category IN ('Books', 'Children', 'Electronics') AND i_class_id IN (1, 2))
            OR (i_category IN ('Women', 'Music', 'Men') AND i_class_id IN (2, 3)))
    GROUP BY i_manufact_id, d_qoy)
WHERE CASE WHEN mean > 0 THEN ABS(sales - mean) / mean END > 0.1 ORDER BY mean, sales, i_manufact_id;

-- 54. How many customers who bought women's items elsewhere spend how much in stores, in segments of 50?
WITH bought AS (
    SELECT customer_sk FROM catalog_sales JOIN item ON cs_item_sk = i_item_sk
    JOIN date_dim ON cs_sold_date_sk = d_date_sk WHERE i_category = 'Women' AND d_year = 1998
    UNION ALL SELECT customer_sk FROM web_sales JOIN item ON ws_item_sk = i_item_sk
    JOIN date_dim ON ws_sold_date_sk = d_date_sk WHERE i_category = 'Women' AND d_year = 1998),
spent AS (
    SELECT customer_sk, SUM(ss_ext_sales_price) AS revenue FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk
    WHERE d_year = 1999 AND customer_sk IN (SELECT customer_sk FROM bought) GROUP BY customer_sk)
SELECT CAST(LEAST(revenue, 9999) AS INTEGER) // 50 AS segment, COUNT(*) AS customers FROM spent
GROUP BY segment HAVING COUNT(*) > 0 ORDER BY segment;

-- 55. What did each brand of another manager sell in a month?
SELECT i_brand_id, i_brand, SUM(ss_ext_sales_price) AS sales FROM date_dim, store_sales, item
WHERE d_date_sk = ss_sold_date_sk AND ss_item_sk = i_item_sk AND i_manager_id = 10 AND d_moy = 11 AND d_year = 1999
GROUP BY i_brand_id, i_brand ORDER BY sales DESC, i_brand_id;

-- 56. What do items of three colours sell in all channels in a month?
WITH sold AS (
    SELECT ss_item_sk AS item_sk, ss_sold_date_sk AS date_sk, ss_addr_sk AS address_sk, ss_ext_sales_price AS price
    FROM store_sales
    UNION ALL SELECT cs_item_sk, cs_sold_date_sk, cs_bill_addr_sk, cs_ext_sales_price FROM catalog_sales
    UNION ALL SELECT ws_item_sk, ws_sold_date_sk, ws_bill_addr_sk, ws_ext_sales_price FROM web_sales)
SELECT i_item_id, SUM(price) AS sales FROM sold, item, date_dim, customer_address
WHERE item_sk = i_item_sk AND date_sk = d_date_sk AND address_sk = ca_address_sk AND d_year = 2001 AND d_moy = 2
    AND ca_gmt_offset = -5
    AND i_item_id IN (SELECT i_item_id FROM item WHERE i_color IN ('slate', 'blue', 'pale'))
    GROUP BY i_item_id HAVING COUNT(*) > 0 ORDER BY sales, i_item_id;

-- 57. Which months of a brand and call centre are far from the mean of their year, with the months beside?
WITH monthly AS (
    SELECT i_category, i_brand, cc_name, d_year, d_moy, SUM(cs_sales_price) AS sales
    FROM item, catalog_sales, date_dim, call_center
    WHERE cs_item_sk = i_item_sk AND cs_sold_date_sk = d_date_sk AND cc_call_center_sk = cs_call_center_sk
        AND (d_year = 1999 OR (d_year = 1998 AND d_moy = 12) OR (d_year = 2000 AND d_moy = 1))
    GROUP BY i_category, i_brand, cc_name, d_year, d_moy HAVING COUNT(*) > 0),
beside AS (
    SELECT *, AVG(sales) OVER (PARTITION BY i_category, i_brand, cc_name, d_year) AS mean, LAG(sales)
        OVER (PARTITION BY i_category, i_brand, cc_name ORDER BY d_year, d_moy) AS before,
        LEAD(sales) OVER (PARTITION BY i_category, i_brand, cc_name ORDER BY d_year, d_moy) AS after FROM monthly)
SELECT * FROM beside WHERE d_year = 1999 AND mean > 0 AND ABS(sales - mean) / mean > 0.1 ORDER BY i_category, i_brand,
    cc_name, d_moy;

-- 58. Which items sell about as much in each channel, in a quarter?
WITH stores AS (SELECT i_item_id, SUM(ss_ext_sales_price) AS sales FROM store_sales, item, date_dim
    WHERE ss_item_sk = i_item_sk AND d_date_sk = ss_sold_date_sk
        AND d_date IN (SELECT d_date FROM date_dim WHERE d_year = 2000 AND d_qoy = 1) GROUP BY i_item_id),
catalog AS (SELECT i_item_id, SUM(cs_ext_sales_price) AS sales FROM catalog_sales, item, date_dim
    WHERE cs_item_sk = i_item_sk AND d_date_sk = cs_sold_date_sk
        AND d_date IN (SELECT d_date FROM date_dim WHERE d_year = 2000 AND d_qoy = 1) GROUP BY i_item_id),
web AS (SELECT i_item_id, SUM(ws_ext_sales_price) AS sales FROM web_sales, item, date_dim
    WHERE ws_item_sk = i_item_sk AND d_date_sk = ws_sold_date_sk
        AND d_date IN (SELECT d_date FROM date_dim WHERE d_year = 2000 AND d_qoy = 1) GROUP BY i_item_id)
SELECT i_item_id, s.sales AS store, c.sales AS catalog, w.sales AS web, (s.sales + c.sales + w.sales) / 3 AS mean
FROM stores s JOIN catalog c USING (i_item_id) JOIN web w USING (i_item_id)
WHERE s.sales > 1 AND s.sales BETWEEN 0.5 * c.sales AND 2 * c.sales AND s.sales BETWEEN 0.5 * w.sales AND 2 * w.sales
ORDER BY i_item_id;

-- 59. How do a store's sales by day of the week compare with those a year later, by week?
WITH weekly AS (
    SELECT d_week_seq, s_store_id, SUM(CASE WHEN d_day_name = 'Sunday' THEN ss_sales_price ELSE 0 END) AS sun,
        SUM(CASE WHEN d_day_name = 'Monday' THEN ss_sales_price ELSE 0 END) AS mon,
        SUM(CASE WHEN d_day_name = 'Friday' THEN ss_sales_price ELSE 0 END) AS fri
    FROM store_sales JOIN date_dim ON d_date_sk = ss_sold_date_sk JOIN store ON ss_store_sk = s_store_sk
    GROUP BY d_week_seq, s_store_id HAVING COUNT(*) > 0)
SELECT s_store_name, a.s_store_id, a.d_week_seq, a.sun / NULLIF(b.sun, 0) AS sun, a.mon / NULLIF(b.mon, 0) AS mon,
    a.fri / NULLIF(b.fri, 0) AS fri
FROM weekly a JOIN weekly b ON a.s_store_id = b.s_store_id AND a.d_week_seq = b.d_week_seq - 52
JOIN store ON store.s_store_id = a.s_store_id
WHERE a.d_week_seq IN (SELECT d_week_seq FROM date_dim WHERE d_month_seq BETWEEN 1200 AND 1205) ORDER BY s_store_name,
    a.s_store_id, a.d_week_seq;

-- 60. What do items of a category sell in all channels in a month?
WITH sold AS (
    SELECT ss_item_sk AS item_sk, ss_sold_date_sk AS date_sk, ss_addr_sk AS address_sk, ss_ext_sales_price AS price
    FROM store_sales
    UNION ALL SELECT cs_item_sk, cs_sold_date_sk, cs_bill_addr_sk, cs_ext_sales_price FROM catalog_sales
    UNION ALL SELECT ws_item_sk, ws_sold_date_sk, ws_bill_addr_sk, ws_ext_sales_price FROM web_sales)
SELECT i_item_id, SUM(price) AS sales FROM sold, item, date_dim, customer_address
WHERE item_sk = i_item_sk AND date_sk = d_date_sk AND address_sk = ca_address_sk AND d_year = 1998 AND d_moy = 9
    AND ca_gmt_offset = -5
    AND i_item_id IN (SELECT i_item_id FROM item WHERE i_category = 'Music')
    GROUP BY i_item_id HAVING COUNT(*) > 0 ORDER BY i_item_id, sales;

-- 61. What share of a category's sales was at a promotion?
SELECT promotional, total, promotional / total * 100 AS share FROM (
    SELECT SUM(ss_ext_sales_price) AS promotional FROM store_sales s, store, promotion, date_dim, customer c,
        customer_address, item
    WHERE ss_sold_date_sk = d_date_sk AND ss_store_sk = s_store_sk AND ss_promo_sk = p_promo_sk
        AND s.customer_sk = c.customer_sk AND ca_address_sk = c_current_addr_sk AND ss_item_sk = i_item_sk
        AND ca_gmt_offset = -5 AND i_category = 'Jewelry' AND (p_channel_dmail = 'Y' OR p_channel_email = 'Y'
            OR p_channel_tv = 'Y') AND s_gmt_offset = -5 AND d_year = 1998) AS a, (
    SELECT SUM(ss_ext_sales_price) AS total FROM store_sales s, store, date_dim, customer c, customer_address, item
    WHERE ss_sold_date_sk = d_date_sk AND ss_store_sk = s_store_sk AND s.customer_sk = c.customer_sk
        AND ca_address_sk = c_current_addr_sk AND ss_item_sk = i_item_sk
        AND ca_gmt_offset = -5 AND i_category = 'Jewelry' AND s_gmt_offset = -5 AND d_year = 1998) AS b;

-- 62. After how many days are web orders shipped, by warehouse, way and site?
SELECT SUBSTR(w_warehouse_name, 1, 10) AS warehouse, sm_type, web_name,
    SUM(CASE WHEN ws_ship_date_sk - ws_sold_date_sk <= 30 THEN 1 ELSE 0 END) AS days30,
    SUM(CASE WHEN ws_ship_date_sk - ws_sold_date_sk > 30 AND ws_ship_date_sk - ws_sold_date_sk <= 60 THEN 1
        ELSE 0 END) AS days60,
    SUM(CASE WHEN ws_ship_date_sk - ws_sold_date_sk > 60 AND ws_ship_date_sk - ws_sold_date_sk <= 90 THEN 1
        ELSE 0 END) AS days90, SUM(CASE WHEN ws_ship_date_sk - ws_sold_date_sk > 90 THEN 1 ELSE 0 END) AS more
FROM web_sales, warehouse, ship_mode, web_site, date_dim
WHERE d_month_seq BETWEEN 1200 AND 1211 AND ws_ship_date_sk = d_date_sk AND ws_warehouse_sk = w_warehouse_sk
    AND ws_ship_mode_sk = sm_ship_mode_sk AND ws_web_site_sk = web_site_sk
GROUP BY SUBSTR(w_warehouse_name, 1, 10), sm_type, web_name ORDER BY warehouse, sm_type, web_name;

-- 63. Which months of a manager are far from the mean?
SELECT * FROM (
    SELECT i_manager_id, d_moy, SUM(ss_sales_price) AS sales, AVG(SUM(ss_sales_price))
        OVER (PARTITION BY i_manager_id) AS mean FROM item, store_sales, date_dim, store
    WHERE ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk AND ss_store_sk = s_store_sk
        AND d_month_seq IN (1200, 1200 + 1, 1200 + 2, 1200 + 3, 1200 + 4, 1200 + 5)
        AND ((i_category IN ('Books', 'Children', 'Electronics') AND i_class_id IN (1, 2))
            OR (i_category IN ('Women', 'Music', 'Men') AND i_class_id IN (2, 3)))
    GROUP BY i_manager_id, d_moy)
WHERE CASE WHEN mean > 0 THEN ABS(sales - mean) / mean END > 0.1 ORDER BY i_manager_id, mean, sales;

-- 64. Which products did a store sell less in 2000 than in 1999, of those returned by catalog for little?
WITH kept AS (
    SELECT i_item_sk FROM catalog_sales s JOIN catalog_returns r ON s.customer_sk = r.customer_sk
        AND cs_item_sk = cr_item_sk AND cs_order_number = cr_order_number JOIN item ON cs_item_sk = i_item_sk
    GROUP BY i_item_sk HAVING SUM(cs_ext_list_price) > 2 * SUM(cr_refunded_cash)),
yearly AS (
    SELECT i_product_name, i_item_sk, s_store_name, s_zip, d_year, COUNT(*) AS n, SUM(ss_wholesale_cost) AS cost,
        SUM(ss_list_price) AS list, SUM(ss_coupon_amt) AS coupon
    FROM store_sales s, date_dim, store, item, customer c, customer_demographics d1, customer_demographics d2,
        household_demographics, income_band
    WHERE ss_store_sk = s_store_sk AND ss_sold_date_sk = d_date_sk AND s.customer_sk = c.customer_sk
        AND ss_item_sk = i_item_sk AND ss_cdemo_sk = d1.cd_demo_sk AND c_current_cdemo_sk = d2.cd_demo_sk
        AND d1.cd_marital_status <> d2.cd_marital_status AND ss_hdemo_sk = hd_demo_sk
            AND hd_income_band_sk = ib_income_band_sk AND i_color IN ('red', 'blue', 'green', 'slate')
            AND d_year IN (1999, 2000)
    GROUP BY i_product_name, i_item_sk, s_store_name, s_zip, d_year HAVING COUNT(*) > 0)
SELECT a.i_product_name, a.s_store_name, a.s_zip, a.n, a.cost, a.list, a.coupon, b.n AS n2, b.cost AS cost2,
    b.list AS list2, b.coupon AS coupon2
FROM yearly a JOIN yearly b ON a.i_item_sk = b.i_item_sk AND a.s_store_name = b.s_store_name AND a.s_zip = b.s_zip
WHERE a.d_year = 1999 AND b.d_year = 2000 AND b.n <= a.n AND a.i_item_sk IN (SELECT i_item_sk FROM kept)
ORDER BY a.i_product_name, a.s_store_name;

-- 65. Which items sell much less than the average item of a store?
WITH sales AS (
    SELECT s_store_sk, s_store_name, i_item_sk, i_item_desc, SUM(ss_sales_price) AS revenue
    FROM store_sales, date_dim, store, item
    WHERE ss_sold_date_sk = d_date_sk AND d_month_seq BETWEEN 1176 AND 1187 AND ss_store_sk = s_store_sk
        AND ss_item_sk = i_item_sk GROUP BY s_store_sk, s_store_name, i_item_sk, i_item_desc HAVING COUNT(*) > 0)
SELECT s_store_name, i_item_desc, revenue FROM sales JOIN (SELECT s_store_sk, AVG(revenue) AS mean FROM sales
    GROUP BY s_store_sk) USING (s_store_sk) WHERE revenue <= 0.1 * mean ORDER BY s_store_name, i_item_desc;

-- 66. What did each warehouse ship each month, for the web and the catalog, by two carriers?
WITH shipped AS (
    SELECT ws_warehouse_sk AS house, ws_sold_date_sk AS date_sk, ws_sold_time_sk AS time_sk,
        ws_ship_mode_sk AS mode_sk, ws_ext_sales_price AS sales, ws_net_paid AS net FROM web_sales
    UNION ALL SELECT cs_warehouse_sk, cs_sold_date_sk, cs_sold_time_sk, cs_ship_mode_sk, cs_ext_sales_price,
        cs_net_paid FROM catalog_sales)
SELECT w_warehouse_name, w_warehouse_sq_ft, w_city, w_state, d_year,
    SUM(CASE WHEN d_moy = 1 THEN sales ELSE 0 END) AS jan, SUM(CASE WHEN d_moy = 2 THEN sales ELSE 0 END) AS feb,
    SUM(CASE WHEN d_moy = 12 THEN sales ELSE 0 END) AS dec, SUM(CASE WHEN d_moy = 1 THEN sales
        ELSE 0 END) / w_warehouse_sq_ft AS jan_per_foot, SUM(CASE WHEN d_moy = 1 THEN net ELSE 0 END) AS jan_net
FROM shipped, warehouse, date_dim, time_dim, ship_mode
WHERE house = w_warehouse_sk AND date_sk = d_date_sk AND time_sk = t_time_sk AND mode_sk = sm_ship_mode_sk
    AND d_year = 2001 AND t_time BETWEEN 30838 AND 59638 AND sm_carrier IN ('DHL', 'BARIAN')
GROUP BY w_warehouse_name, w_warehouse_sq_ft, w_city, w_state, d_year ORDER BY w_warehouse_name;

-- 67. What are the 10 largest sales of each category, by all sorts of subtotals?
WITH sales AS (
    SELECT i_category, i_class, i_brand, i_product_name, d_year, d_qoy, d_moy, s_store_id,
        SUM(ss_sales_price * ss_quantity) AS sales FROM store_sales, date_dim, store, item
    WHERE ss_sold_date_sk = d_date_sk AND ss_item_sk = i_item_sk AND ss_store_sk = s_store_sk
        AND d_month_seq BETWEEN 1200 AND 1211 AND i_category IN ('Books', 'Music', 'Men')
    GROUP BY ROLLUP (i_category, i_class, i_brand, i_product_name, d_year, d_qoy, d_moy, s_store_id))
SELECT * FROM (SELECT *, RANK() OVER (PARTITION BY i_category ORDER BY sales DESC) AS place FROM sales)
WHERE place <= 10 ORDER BY i_category, place, i_class, i_brand, i_product_name, d_year, d_qoy, d_moy, s_store_id;

-- 68. Which customers buy on the first days of a month in another city than they live in?
-- refused: DPQ301, it lists customers
SELECT c_last_name, c_first_name, a.ca_city, b.ca_city AS bought_city, ss_ticket_number, price, tax FROM (
    SELECT customer_sk, ss_ticket_number, ss_addr_sk, SUM(ss_ext_sales_price) AS price, SUM(ss_ext_tax) AS tax
    FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_dom BETWEEN 1 AND 2
    GROUP BY customer_sk, ss_ticket_number, ss_addr_sk) t
JOIN customer USING (customer_sk) JOIN customer_address a ON c_current_addr_sk = a.ca_address_sk
JOIN customer_address b ON ss_addr_sk = b.ca_address_sk
WHERE a.ca_city <> b.ca_city ORDER BY c_last_name, ss_ticket_number LIMIT 100;

-- 69. Who in three states bought in a store, and neither on the web nor by catalog, by demographics?
SELECT cd_gender, cd_marital_status, cd_education_status, COUNT(*) AS n, cd_purchase_estimate, cd_credit_rating
FROM customer c JOIN customer_address ON c_current_addr_sk = ca_address_sk
JOIN customer_demographics ON cd_demo_sk = c_current_cdemo_sk
WHERE ca_state IN ('KY', 'GA', 'NM')
    AND EXISTS (SELECT * FROM store_sales s JOIN date_dim ON ss_sold_date_sk = d_date_sk
        WHERE c.customer_sk = s.customer_sk AND d_year = 2001 AND d_moy BETWEEN 4 AND 6)
    AND NOT EXISTS (SELECT * FROM web_sales w JOIN date_dim ON ws_sold_date_sk = d_date_sk
        WHERE c.customer_sk = w.customer_sk AND d_year = 2001 AND d_moy BETWEEN 4 AND 6)
    AND NOT EXISTS (SELECT * FROM catalog_sales k JOIN date_dim ON cs_sold_date_sk = d_date_sk
        WHERE c.customer_sk = k.customer_sk AND d_year = 2001 AND d_moy BETWEEN 4 AND 6)
GROUP BY cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating HAVING COUNT(*) > 0
ORDER BY cd_gender, cd_marital_status, cd_education_status, cd_purchase_estimate, cd_credit_rating;

-- 70. What did stores earn by county, in the two states that earn most?
SELECT SUM(ss_net_profit) AS profit, s_state, s_county, GROUPING(s_state) + GROUPING(s_county) AS level
FROM store_sales, date_dim, store
WHERE d_month_seq BETWEEN 1200 AND 1211 AND d_date_sk = ss_sold_date_sk AND s_store_sk = ss_store_sk AND s_state IN (
    SELECT s_state FROM (SELECT s_state, RANK() OVER (ORDER BY SUM(ss_net_profit) DESC) AS place
        FROM store_sales, store, date_dim
        WHERE d_month_seq BETWEEN 1200 AND 1211 AND d_date_sk = ss_sold_date_sk AND s_store_sk = ss_store_sk
        GROUP BY s_state) WHERE place <= 2)
GROUP BY ROLLUP (s_state, s_county) HAVING COUNT(*) > 0 ORDER BY level DESC, s_state, s_county;

-- 71. What do brands of a manager sell at breakfast and dinner, in all channels?
SELECT i_brand_id, i_brand, t_hour, t_minute, SUM(price) AS sales FROM item, (
    SELECT ws_ext_sales_price AS price, ws_sold_date_sk AS date_sk, ws_item_sk AS item_sk, ws_sold_time_sk AS time_sk
    FROM web_sales
    UNION ALL SELECT cs_ext_sales_price, cs_sold_date_sk, cs_item_sk, cs_sold_time_sk FROM catalog_sales
    UNION ALL SELECT ss_ext_sales_price, ss_sold_date_sk, ss_item_sk, ss_sold_time_sk FROM store_sales) AS sold,
        date_dim, time_dim
WHERE d_date_sk = date_sk AND d_moy = 11 AND d_year = 1999 AND item_sk = i_item_sk AND i_manager_id = 1
    AND time_sk = t_time_sk AND (t_meal_time = 'breakfast' OR t_meal_time = 'dinner')
GROUP BY i_brand_id, i_brand, t_hour, t_minute HAVING COUNT(*) > 0 ORDER BY sales DESC, i_brand_id, t_hour;

-- 72. How often was an order by catalog larger than the stock of its week, by item and warehouse?
SELECT i_item_desc, w_warehouse_name, SUM(CASE WHEN p_channel_dmail = 'N' THEN 1 ELSE 0 END) AS no_promo,
    SUM(CASE WHEN p_channel_dmail = 'Y' THEN 1 ELSE 0 END) AS promo, COUNT(*) AS n
FROM catalog_sales JOIN date_dim a ON cs_sold_date_sk = a.d_date_sk
JOIN inventory ON cs_item_sk = inv_item_sk AND inv_date_sk = 2450818 + (cs_sold_date_sk - 2450818) // 28 * 28
JOIN warehouse ON w_warehouse_sk = inv_warehouse_sk JOIN item ON i_item_sk = cs_item_sk
JOIN customer_demographics ON cs_bill_cdemo_sk = cd_demo_sk
JOIN household_demographics ON cs_bill_hdemo_sk = hd_demo_sk LEFT JOIN promotion ON cs_promo_sk = p_promo_sk
WHERE inv_quantity_on_hand < cs_quantity AND hd_buy_potential = '>10000' AND a.d_year = 1999
GROUP BY i_item_desc, w_warehouse_name HAVING COUNT(*) > 0 ORDER BY n DESC, i_item_desc, w_warehouse_name;

-- 73. Which customers buy tickets of one to five items on the first days of a month?
-- refused: DPQ301, it lists customers
SELECT c_last_name, c_first_name, c_salutation, c_preferred_cust_flag, ss_ticket_number, n FROM customer JOIN (
    SELECT customer_sk, ss_ticket_number, COUNT(*) AS n FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk
    JOIN household_demographics ON ss_hdemo_sk = hd_demo_sk
    WHERE d_dom BETWEEN 1 AND 2 AND hd_buy_potential IN ('>10000', 'Unknown')
    GROUP BY customer_sk, ss_ticket_number) USING (customer_sk)
WHERE n BETWEEN 1 AND 5 ORDER BY n DESC, c_last_name;

-- 74. Which customers paid more on the web in a year, relative to the year before, than in the stores?
-- refused: DPQ301, it lists customers
WITH store AS (SELECT customer_sk, d_year, SUM(ss_net_paid) AS total FROM store_sales
    JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_year IN (2001, 2002) GROUP BY customer_sk, d_year),
web AS (SELECT customer_sk, d_year, SUM(ws_net_paid) AS total FROM web_sales
    JOIN date_dim ON ws_sold_date_sk = d_date_sk WHERE d_year IN (2001, 2002) GROUP BY customer_sk, d_year)
SELECT c_customer_id, c_first_name, c_last_name FROM customer JOIN store s1 USING (customer_sk)
JOIN store s2 USING (customer_sk) JOIN web w1 USING (customer_sk) JOIN web w2 USING (customer_sk)
WHERE s1.d_year = 2001 AND s2.d_year = 2002 AND w1.d_year = 2001 AND w2.d_year = 2002
    AND w2.total / NULLIF(w1.total, 0) > s2.total / NULLIF(s1.total, 0) ORDER BY c_customer_id LIMIT 100;

-- 75. Of which brands of books were fewer kept than the year before, by class and maker?
WITH kept AS (
    SELECT d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id,
        cs_quantity - COALESCE(cr_return_quantity, 0) AS quantity
    FROM catalog_sales s JOIN item ON i_item_sk = cs_item_sk JOIN date_dim ON d_date_sk = cs_sold_date_sk
    LEFT JOIN catalog_returns r ON s.customer_sk = r.customer_sk AND cs_order_number = cr_order_number
        AND cs_item_sk = cr_item_sk WHERE i_category = 'Books'
    UNION ALL SELECT d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id,
        ss_quantity - COALESCE(sr_return_quantity, 0)
    FROM store_sales s JOIN item ON i_item_sk = ss_item_sk JOIN date_dim ON d_date_sk = ss_sold_date_sk
    LEFT JOIN store_returns r ON s.customer_sk = r.customer_sk AND ss_ticket_number = sr_ticket_number
        AND ss_item_sk = sr_item_sk WHERE i_category = 'Books'),
yearly AS (SELECT d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id, SUM(quantity) AS quantity FROM kept
    GROUP BY d_year, i_brand_id, i_class_id, i_category_id, i_manufact_id HAVING COUNT(*) > 0)
SELECT a.i_brand_id, a.i_class_id, a.i_category_id, a.i_manufact_id, b.quantity AS before, a.quantity AS now,
    a.quantity - b.quantity AS difference
FROM yearly a JOIN yearly b ON a.i_brand_id = b.i_brand_id AND a.i_class_id = b.i_class_id
    AND a.i_category_id = b.i_category_id AND a.i_manufact_id = b.i_manufact_id
WHERE a.d_year = 2002 AND b.d_year = 2001 AND a.quantity / b.quantity < 0.9 ORDER BY difference, a.i_brand_id,
    a.i_class_id, a.i_manufact_id;

-- 76. How many sales lack a store, an address or a promotion, by quarter and category?
SELECT channel, d_year, d_qoy, i_category, COUNT(*) AS n, SUM(price) AS sales FROM (
    SELECT 'store' AS channel, ss_sold_date_sk AS date_sk, ss_item_sk AS item_sk, ss_ext_sales_price AS price
    FROM store_sales WHERE ss_store_sk IS NULL
    UNION ALL SELECT 'web', ws_sold_date_sk, ws_item_sk, ws_ext_sales_price FROM web_sales WHERE ws_promo_sk IS NULL
    UNION ALL SELECT 'catalog', cs_sold_date_sk, cs_item_sk, cs_ext_sales_price FROM catalog_sales
    WHERE cs_ship_addr_sk IS NULL) AS lacking, item, date_dim
WHERE date_sk = d_date_sk AND item_sk = i_item_sk AND channel IN ('store', 'web', 'catalog')
GROUP BY channel, d_year, d_qoy, i_category HAVING COUNT(*) > 0 ORDER BY channel, d_year, d_qoy, i_category;

-- 77. What were sales, returns and profit in a month, by channel and place?
WITH stores AS (SELECT s_store_sk, SUM(ss_ext_sales_price) AS sales, SUM(ss_net_profit) AS profit
    FROM store_sales, date_dim, store WHERE ss_sold_date_sk = d_date_sk AND d_year = 2000 AND d_moy = 8
    AND ss_store_sk = s_store_sk GROUP BY s_store_sk),
store_back AS (SELECT s_store_sk, SUM(sr_return_amt) AS returned, SUM(sr_net_loss) AS loss
    FROM store_returns, date_dim, store WHERE sr_returned_date_sk = d_date_sk AND d_year = 2000 AND d_moy = 8
    AND sr_store_sk = s_store_sk GROUP BY s_store_sk),
centers AS (SELECT cc_call_center_sk, SUM(cs_ext_sales_price) AS sales, SUM(cs_net_profit) AS profit
    FROM catalog_sales, date_dim, call_center WHERE cs_sold_date_sk = d_date_sk AND d_year = 2000 AND d_moy = 8
    AND cs_call_center_sk = cc_call_center_sk GROUP BY cc_call_center_sk),
center_back AS (SELECT cc_call_center_sk, SUM(cr_return_amount) AS returned, SUM(cr_net_loss) AS loss
    FROM catalog_returns, date_dim, call_center WHERE cr_returned_date_sk = d_date_sk AND d_year = 2000 AND d_moy = 8
    AND cr_call_center_sk = cc_call_center_sk GROUP BY cc_call_center_sk),
web AS (SELECT wp_web_page_sk, SUM(ws_ext_sales_price) AS sales, SUM(ws_net_profit) AS profit
    FROM web_sales, date_dim, web_page WHERE ws_sold_date_sk = d_date_sk AND d_year = 2000 AND d_moy = 8
    AND ws_web_page_sk = wp_web_page_sk GROUP BY wp_web_page_sk),
web_back AS (SELECT wp_web_page_sk, SUM(wr_return_amt) AS returned, SUM(wr_net_loss) AS loss
    FROM web_returns, date_dim, web_page WHERE wr_returned_date_sk = d_date_sk AND d_year = 2000 AND d_moy = 8
    AND wr_web_page_sk = wp_web_page_sk GROUP BY wp_web_page_sk)
SELECT channel, id, SUM(sales) AS sales, SUM(returned) AS returned, SUM(profit) AS profit FROM (
    SELECT 'store' AS channel, s_store_sk AS id, sales, COALESCE(returned, 0) AS returned,
        profit - COALESCE(loss, 0) AS profit FROM stores LEFT JOIN store_back USING (s_store_sk)
    UNION ALL SELECT 'catalog', cc_call_center_sk, sales, COALESCE(returned, 0), profit - COALESCE(loss, 0)
    FROM centers LEFT JOIN center_back USING (cc_call_center_sk)
    UNION ALL SELECT 'web', wp_web_page_sk, sales, COALESCE(returned, 0), profit - COALESCE(loss, 0) FROM web
    LEFT JOIN web_back USING (wp_web_page_sk))
GROUP BY ROLLUP (channel, id) ORDER BY channel, id;

-- 78. What does each customer buy of each item in stores, against other channels, where nothing is returned?
-- refused: DPQ402, its groups are customers
SELECT s.customer_sk, ss_item_sk, SUM(ss_quantity) AS store, SUM(ws_quantity) AS web FROM store_sales s
JOIN web_sales w ON s.customer_sk = w.customer_sk AND ss_item_sk = ws_item_sk
WHERE NOT EXISTS (SELECT * FROM store_returns r WHERE r.customer_sk = s.customer_sk
    AND sr_ticket_number = ss_ticket_number) GROUP BY s.customer_sk, ss_item_sk ORDER BY store DESC;

-- 79. Which customers buy on Mondays in large stores, and with what profit?
-- refused: DPQ301, it lists customers
SELECT c_last_name, c_first_name, city, ss_ticket_number, coupon, profit FROM (
    SELECT customer_sk, ss_ticket_number, s_city AS city, SUM(ss_coupon_amt) AS coupon, SUM(ss_net_profit) AS profit
    FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk JOIN store ON ss_store_sk = s_store_sk
    WHERE d_dow = 1 AND s_number_employees BETWEEN 200 AND 295 GROUP BY customer_sk, ss_ticket_number, s_city)
    JOIN customer USING (customer_sk) ORDER BY c_last_name, c_first_name LIMIT 100;

-- 80. What were sales, returns and profit of dear items without television, by channel and place?
WITH stores AS (
    SELECT s_store_id, SUM(ss_ext_sales_price) AS sales, SUM(COALESCE(sr_return_amt, 0)) AS returned,
        SUM(ss_net_profit - COALESCE(sr_net_loss, 0)) AS profit
    FROM store_sales s LEFT JOIN store_returns r ON s.customer_sk = r.customer_sk AND ss_item_sk = sr_item_sk
        AND ss_ticket_number = sr_ticket_number, date_dim, store, item, promotion
    WHERE ss_sold_date_sk = d_date_sk AND d_year = 2000 AND d_moy = 8 AND ss_store_sk = s_store_sk
        AND ss_item_sk = i_item_sk AND i_current_price > 50 AND ss_promo_sk = p_promo_sk AND p_channel_tv = 'N'
        GROUP BY s_store_id),
pages AS (
    SELECT cp_catalog_page_id, SUM(cs_ext_sales_price) AS sales, SUM(COALESCE(cr_return_amount, 0)) AS returned,
        SUM(cs_net_profit - COALESCE(cr_net_loss, 0)) AS profit
    FROM catalog_sales s LEFT JOIN catalog_returns r ON s.customer_sk = r.customer_sk AND cs_item_sk = cr_item_sk
        AND cs_order_number = cr_order_number, date_dim, catalog_page, item, promotion
    WHERE cs_sold_date_sk = d_date_sk AND d_year = 2000 AND d_moy = 8 AND cs_catalog_page_sk = cp_catalog_page_sk
        AND cs_item_sk = i_item_sk AND i_current_price > 50 AND cs_promo_sk = p_promo_sk AND p_channel_tv = 'N'
        GROUP BY cp_catalog_page_id)
SELECT channel, id, SUM(sales) AS sales, SUM(returned) AS returned, SUM(profit) AS profit
FROM (SELECT 'store' AS channel, s_store_id AS id, sales, returned, profit FROM stores
    UNION ALL SELECT 'catalog', cp_catalog_page_id, sales, returned, profit FROM pages)
    GROUP BY ROLLUP (channel, id) ORDER BY channel, id;

-- 81. Which customers in Georgia returned more by catalog than is usual in their state?
-- refused: DPQ301, it lists customers
WITH returned AS (
    SELECT customer_sk, ca_state, SUM(cr_return_amount) AS total FROM catalog_returns, date_dim, customer_address
    WHERE cr_returned_date_sk = d_date_sk AND d_year = 2000 AND cr_returning_addr_sk = ca_address_sk
    GROUP BY customer_sk, ca_state)
SELECT c_customer_id, c_salutation, c_first_name, c_last_name, total FROM returned JOIN customer USING (customer_sk)
WHERE ca_state = 'GA' AND total > 1.2 * (SELECT AVG(total) FROM returned WHERE ca_state = 'GA') ORDER BY c_customer_id
LIMIT 100;

-- 82. Which items of some makers were in stock, and sold in stores?
SELECT i_item_id, i_item_desc, i_current_price FROM item, store_sales
WHERE ss_item_sk = i_item_sk AND i_current_price BETWEEN 30 AND 60 AND i_manufact_id IN (2, 4, 6, 8) AND i_item_sk IN (
    SELECT inv_item_sk FROM inventory JOIN date_dim ON d_date_sk = inv_date_sk
    WHERE d_date BETWEEN DATE '2000-05-25' AND DATE '2000-07-24' AND inv_quantity_on_hand BETWEEN 10 AND 12)
GROUP BY i_item_id, i_item_desc, i_current_price HAVING COUNT(*) > 0 ORDER BY i_item_id, i_item_desc;

-- 83. How many pieces of each item were returned in three months, by channel?
WITH stores AS (SELECT i_item_id, SUM(sr_return_quantity) AS n FROM store_returns, item, date_dim
    WHERE sr_item_sk = i_item_sk AND sr_returned_date_sk = d_date_sk
        AND d_date IN (SELECT d_date FROM date_dim WHERE d_month_seq IN (SELECT d_month_seq FROM date_dim
            WHERE d_date IN (DATE '2000-06-30', DATE '2000-09-27', DATE '2000-11-17')))
            GROUP BY i_item_id HAVING COUNT(*) > 0),
catalog AS (SELECT i_item_id, SUM(cr_return_quantity) AS n FROM catalog_returns, item, date_dim
    WHERE cr_item_sk = i_item_sk AND cr_returned_date_sk = d_date_sk
        AND d_date IN (SELECT d_date FROM date_dim WHERE d_month_seq IN (SELECT d_month_seq FROM date_dim
            WHERE d_date IN (DATE '2000-06-30', DATE '2000-09-27', DATE '2000-11-17')))
            GROUP BY i_item_id HAVING COUNT(*) > 0),
web AS (SELECT i_item_id, SUM(wr_return_quantity) AS n FROM web_returns, item, date_dim
    WHERE wr_item_sk = i_item_sk AND wr_returned_date_sk = d_date_sk
        AND d_date IN (SELECT d_date FROM date_dim WHERE d_month_seq IN (SELECT d_month_seq FROM date_dim
            WHERE d_date IN (DATE '2000-06-30', DATE '2000-09-27', DATE '2000-11-17')))
            GROUP BY i_item_id HAVING COUNT(*) > 0)
SELECT i_item_id, s.n AS store, c.n AS catalog, w.n AS web, (s.n + c.n + w.n) / 3.0 AS mean FROM stores s
JOIN catalog c USING (i_item_id) JOIN web w USING (i_item_id) ORDER BY i_item_id;

-- 84. Which customers of a city with a certain income returned something to a store?
-- refused: DPQ301, it lists customers
SELECT c_customer_id, c_last_name, c_first_name FROM customer c, customer_address, household_demographics, income_band,
    store_returns r
WHERE ca_city = 'Oakland' AND c_current_addr_sk = ca_address_sk AND ib_lower_bound >= 40000
    AND ib_upper_bound <= 100000 AND ib_income_band_sk = hd_income_band_sk AND hd_demo_sk = c_current_hdemo_sk
    AND r.customer_sk = c.customer_sk ORDER BY c_customer_id;

-- 85. What do people of a kind return to the web on average, by reason?
SELECT SUBSTR(r_reason_desc, 1, 20) AS reason, AVG(ws_quantity) AS quantity, AVG(wr_refunded_cash) AS refunded,
    AVG(wr_fee) AS fee
FROM web_sales s, web_returns r, web_page, customer_demographics cd1, customer_demographics cd2, customer_address,
    date_dim, reason
WHERE ws_web_page_sk = wp_web_page_sk AND s.customer_sk = r.customer_sk AND ws_item_sk = wr_item_sk
    AND ws_order_number = wr_order_number AND ws_sold_date_sk = d_date_sk AND d_year = 2000
    AND cd1.cd_demo_sk = wr_refunded_cdemo_sk AND cd2.cd_demo_sk = wr_returning_cdemo_sk
        AND ca_address_sk = wr_refunded_addr_sk AND r_reason_sk = wr_reason_sk
    AND ((cd1.cd_marital_status = 'M' AND cd1.cd_marital_status = cd2.cd_marital_status
        AND ws_sales_price BETWEEN 1 AND 15)
        OR (cd1.cd_marital_status = 'S' AND cd1.cd_marital_status = cd2.cd_marital_status
            AND ws_sales_price BETWEEN 2 AND 10))
    AND ((ca_country = 'United States' AND ca_state IN ('IN', 'OH', 'TX', 'CA') AND ws_net_profit BETWEEN -20 AND 20)
        OR (ca_country = 'United States' AND ca_state IN ('WA', 'VA', 'MS') AND ws_net_profit BETWEEN 0.5 AND 90))
GROUP BY r_reason_desc HAVING COUNT(*) > 0 ORDER BY reason;

-- 86. What do categories and classes sell on the web, and their rank?
SELECT SUM(ws_net_paid) AS paid, i_category, i_class, GROUPING(i_category) + GROUPING(i_class) AS level,
    RANK() OVER (PARTITION BY GROUPING(i_category) + GROUPING(i_class), CASE
        WHEN GROUPING(i_class) = 0 THEN i_category END ORDER BY SUM(ws_net_paid) DESC) AS place
FROM web_sales, date_dim, item WHERE d_month_seq BETWEEN 1200 AND 1211 AND d_date_sk = ws_sold_date_sk
    AND i_item_sk = ws_item_sk GROUP BY ROLLUP (i_category, i_class) ORDER BY level DESC, i_category, place;

-- 87. How many customers bought in a store on a day, and neither by catalog nor on the web?
SELECT COUNT(*) AS n FROM (
    SELECT DISTINCT customer_sk, d_date FROM store_sales JOIN date_dim ON ss_sold_date_sk = d_date_sk
    WHERE d_month_seq BETWEEN 1200 AND 1211
    EXCEPT SELECT DISTINCT customer_sk, d_date FROM catalog_sales JOIN date_dim ON cs_sold_date_sk = d_date_sk
    WHERE d_month_seq BETWEEN 1200 AND 1211
    EXCEPT SELECT DISTINCT customer_sk, d_date FROM web_sales JOIN date_dim ON ws_sold_date_sk = d_date_sk
    WHERE d_month_seq BETWEEN 1200 AND 1211);

-- 88. How many sales has a store in each half hour of a morning?
SELECT * FROM (SELECT COUNT(*) AS from_8_30 FROM store_sales, household_demographics, time_dim, store
    WHERE ss_sold_time_sk = t_time_sk AND ss_hdemo_sk = hd_demo_sk AND ss_store_sk = s_store_sk AND t_hour = 8
    AND t_minute >= 30
        AND ((hd_dep_count = 4 AND hd_vehicle_count <= 6) OR (hd_dep_count = 2 AND hd_vehicle_count <= 4))
            AND s_store_name = 'ese') AS a,
(SELECT COUNT(*) AS from_9 FROM store_sales, household_demographics, time_dim, store
    WHERE ss_sold_time_sk = t_time_sk AND ss_hdemo_sk = hd_demo_sk AND ss_store_sk = s_store_sk AND t_hour = 9
    AND t_minute < 30
        AND ((hd_dep_count = 4 AND hd_vehicle_count <= 6) OR (hd_dep_count = 2 AND hd_vehicle_count <= 4))
            AND s_store_name = 'ese') AS b,
(SELECT COUNT(*) AS from_9_30 FROM store_sales, household_demographics, time_dim, store
    WHERE ss_sold_time_sk = t_time_sk AND ss_hdemo_sk = hd_demo_sk AND ss_store_sk = s_store_sk AND t_hour = 9
    AND t_minute >= 30
        AND ((hd_dep_count = 4 AND hd_vehicle_count <= 6) OR (hd_dep_count = 2 AND hd_vehicle_count <= 4))
            AND s_store_name = 'ese') AS c;

-- 89. Which months of a class and store are far from the mean of the year?
SELECT * FROM (
    SELECT i_category, i_class, i_brand, s_store_name, s_company_name, d_moy, SUM(ss_sales_price) AS sales,
        AVG(SUM(ss_sales_price)) OVER (PARTITION BY i_category, i_brand, s_store_name, s_company_name) AS mean
    FROM item, store_sales, date_dim, store WHERE ss_item_sk = i_item_sk AND ss_sold_date_sk = d_date_sk
        AND ss_store_sk = s_store_sk AND d_year IN (1999)
        AND ((i_category IN ('Books', 'Electronics', 'Sports') AND i_class_id IN (1, 2))
            OR (i_category IN ('Men', 'Jewelry', 'Women') AND i_class_id IN (3, 4)))
    GROUP BY i_category, i_class, i_brand, s_store_name, s_company_name, d_moy HAVING COUNT(*) > 0)
WHERE CASE WHEN mean <> 0 THEN ABS(sales - mean) / mean END > 0.1 ORDER BY ROUND(sales - mean, 2), i_category, i_class,
    i_brand, s_store_name, d_moy;

-- 90. How many web orders are there in the morning for each in the evening?
SELECT CAST(morning AS DECIMAL(15, 4)) / NULLIF(evening, 0) AS ratio FROM (
    SELECT COUNT(*) AS morning FROM web_sales, household_demographics, time_dim, web_page
    WHERE ws_sold_time_sk = t_time_sk AND ws_ship_hdemo_sk = hd_demo_sk AND ws_web_page_sk = wp_web_page_sk
        AND t_hour BETWEEN 8 AND 9 AND hd_dep_count = 3 AND wp_char_count BETWEEN 5000 AND 5200) AS a, (
    SELECT COUNT(*) AS evening FROM web_sales, household_demographics, time_dim, web_page
    WHERE ws_sold_time_sk = t_time_sk AND ws_ship_hdemo_sk = hd_demo_sk AND ws_web_page_sk = wp_web_page_sk
        AND t_hour BETWEEN 19 AND 20 AND hd_dep_count = 3 AND wp_char_count BETWEEN 5000 AND 5200) AS b;

-- 91. What did returns of two kinds of customers cost each call centre?
SELECT cc_call_center_id, cc_name, cc_manager, SUM(cr_net_loss) AS loss
FROM call_center, catalog_returns r, date_dim, customer c, customer_address, customer_demographics,
    household_demographics
WHERE cr_call_center_sk = cc_call_center_sk AND cr_returned_date_sk = d_date_sk AND r.customer_sk = c.customer_sk
    AND cd_demo_sk = c_current_cdemo_sk AND hd_demo_sk = c_current_hdemo_sk AND ca_address_sk = c_current_addr_sk
    AND d_year BETWEEN 1998 AND 2000 AND ((cd_marital_status = 'M' AND cd_education_status = 'Unknown')
        OR (cd_marital_status = 'W' AND cd_education_status = 'Advanced Degree')) AND hd_buy_potential LIKE '%1000%'
        AND ca_gmt_offset = -5
GROUP BY cc_call_center_id, cc_name, cc_manager HAVING COUNT(*) > 0 ORDER BY loss DESC;

-- 92. How much discount on the web was over 1.3 times the average of its item?
SELECT SUM(ws_ext_discount_amt) AS excess
FROM web_sales JOIN item ON i_item_sk = ws_item_sk JOIN date_dim ON d_date_sk = ws_sold_date_sk JOIN (
    SELECT i_item_sk AS mean_of, AVG(ws_ext_discount_amt) AS mean FROM web_sales JOIN item ON ws_item_sk = i_item_sk
    JOIN date_dim ON d_date_sk = ws_sold_date_sk
    WHERE d_date BETWEEN DATE '2000-01-27' AND DATE '2000-04-26' AND i_manufact_id = 5
    GROUP BY i_item_sk) ON mean_of = ws_item_sk
WHERE i_manufact_id = 5 AND d_date BETWEEN DATE '2000-01-27' AND DATE '2000-04-26' AND ws_ext_discount_amt > 1.3 * mean;

-- 93. What did each customer pay, less what was returned for a reason?
-- refused: DPQ402, its groups are customers
SELECT s.customer_sk, SUM(CASE
    WHEN sr_return_quantity IS NOT NULL THEN (ss_quantity - sr_return_quantity) * ss_sales_price
    ELSE ss_quantity * ss_sales_price END) AS paid
FROM store_sales s LEFT JOIN store_returns r ON s.customer_sk = r.customer_sk AND sr_item_sk = ss_item_sk
    AND sr_ticket_number = ss_ticket_number JOIN reason ON sr_reason_sk = r_reason_sk
WHERE r_reason_desc = 'reason 7' GROUP BY s.customer_sk ORDER BY paid;

-- 94. How many web orders came from several warehouses, and nothing of them was returned?
SELECT COUNT(DISTINCT ws_order_number) AS orders, SUM(ws_ext_ship_cost) AS shipping, SUM(ws_net_profit) AS profit
FROM web_sales a JOIN date_dim ON ws_ship_date_sk = d_date_sk JOIN customer_address ON ws_ship_addr_sk = ca_address_sk
JOIN web_site ON ws_web_site_sk = web_site_sk
WHERE d_date BETWEEN DATE '1999-02-01' AND DATE '1999-12-02' AND ca_state IN ('IL', 'GA') AND web_company_name = 'pri'
    AND EXISTS (SELECT * FROM web_sales b WHERE a.customer_sk = b.customer_sk AND a.ws_order_number = b.ws_order_number
        AND a.ws_warehouse_sk <> b.ws_warehouse_sk)
    AND NOT EXISTS (SELECT * FROM web_returns r WHERE a.customer_sk = r.customer_sk
        AND a.ws_order_number = wr_order_number);

-- 95. How many web orders came from several warehouses, and something of them was returned?
WITH several AS (SELECT customer_sk, ws_order_number FROM web_sales
    GROUP BY customer_sk, ws_order_number HAVING COUNT(DISTINCT ws_warehouse_sk) > 1)
SELECT COUNT(DISTINCT ws_order_number) AS orders, SUM(ws_ext_ship_cost) AS shipping, SUM(ws_net_profit) AS profit
FROM web_sales a JOIN date_dim ON ws_ship_date_sk = d_date_sk JOIN customer_address ON ws_ship_addr_sk = ca_address_sk
JOIN web_site ON ws_web_site_sk = web_site_sk
WHERE d_date BETWEEN DATE '1999-02-01' AND DATE '1999-12-02' AND ca_state IN ('IL', 'GA') AND web_company_name = 'pri'
    AND (customer_sk, ws_order_number) IN (SELECT customer_sk, ws_order_number FROM several)
        AND (customer_sk, ws_order_number) IN (SELECT customer_sk, wr_order_number FROM web_returns);

-- 96. How many sales has a store in a half hour, to households with three dependants?
SELECT COUNT(*) AS n FROM store_sales, household_demographics, time_dim, store
WHERE ss_sold_time_sk = t_time_sk AND ss_hdemo_sk = hd_demo_sk AND ss_store_sk = s_store_sk AND t_hour = 20
    AND t_minute >= 30 AND hd_dep_count = 3 AND s_store_name = 'ese';

-- 97. How many customers bought an item in a store only, by catalog only, or both?
WITH s AS (SELECT DISTINCT customer_sk, ss_item_sk AS item_sk FROM store_sales
    JOIN date_dim ON ss_sold_date_sk = d_date_sk WHERE d_month_seq BETWEEN 1200 AND 1223),
c AS (SELECT DISTINCT customer_sk, cs_item_sk AS item_sk FROM catalog_sales
    JOIN date_dim ON cs_sold_date_sk = d_date_sk WHERE d_month_seq BETWEEN 1200 AND 1223)
SELECT SUM(CASE WHEN s.item_sk IS NOT NULL AND c.item_sk IS NULL THEN 1 ELSE 0 END) AS store_only,
    SUM(CASE WHEN s.item_sk IS NULL AND c.item_sk IS NOT NULL THEN 1 ELSE 0 END) AS catalog_only,
    SUM(CASE WHEN s.item_sk IS NOT NULL AND c.item_sk IS NOT NULL THEN 1 ELSE 0 END) AS in_both
FROM s FULL JOIN c ON s.customer_sk = c.customer_sk AND s.item_sk = c.item_sk;

-- 98. What share of its class does each item have in a month of sales in stores?
SELECT i_item_id, i_item_desc, i_category, i_class, i_current_price, SUM(ss_ext_sales_price) AS revenue,
    SUM(ss_ext_sales_price) * 100 / SUM(SUM(ss_ext_sales_price)) OVER (PARTITION BY i_class) AS share
FROM store_sales, item, date_dim
WHERE ss_item_sk = i_item_sk AND i_category IN ('Sports', 'Books', 'Home') AND ss_sold_date_sk = d_date_sk
    AND d_date BETWEEN DATE '1999-02-22' AND DATE '1999-02-22' + INTERVAL 30 DAY
GROUP BY i_item_id, i_item_desc, i_category, i_class, i_current_price HAVING COUNT(*) > 0 ORDER BY i_category, i_class,
    i_item_id, i_item_desc;

-- 99. After how many days are catalog orders shipped, by warehouse, way and call centre?
SELECT SUBSTR(w_warehouse_name, 1, 10) AS warehouse, sm_type, cc_name,
    SUM(CASE WHEN cs_ship_date_sk - cs_sold_date_sk <= 30 THEN 1 ELSE 0 END) AS days30,
    SUM(CASE WHEN cs_ship_date_sk - cs_sold_date_sk > 30 AND cs_ship_date_sk - cs_sold_date_sk <= 60 THEN 1
        ELSE 0 END) AS days60,
    SUM(CASE WHEN cs_ship_date_sk - cs_sold_date_sk > 60 AND cs_ship_date_sk - cs_sold_date_sk <= 90 THEN 1
        ELSE 0 END) AS days90, SUM(CASE WHEN cs_ship_date_sk - cs_sold_date_sk > 90 THEN 1 ELSE 0 END) AS more
FROM catalog_sales, warehouse, ship_mode, call_center, date_dim
WHERE d_month_seq BETWEEN 1200 AND 1211 AND cs_ship_date_sk = d_date_sk AND cs_warehouse_sk = w_warehouse_sk
    AND cs_ship_mode_sk = sm_ship_mode_sk AND cs_call_center_sk = cc_call_center_sk
GROUP BY SUBSTR(w_warehouse_name, 1, 10), sm_type, cc_name ORDER BY warehouse, sm_type, cc_name;
