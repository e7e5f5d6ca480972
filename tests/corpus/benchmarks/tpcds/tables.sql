-- Small data of TPC-DS's schema, the same on every run: the tables and columns that the questions name.
-- A private table has customer_sk in place of its own names for the customer: the privacy unit.

CREATE MACRO pick(i, salt, n) AS CAST(md5_number_lower(i || salt) % n AS INTEGER);
CREATE MACRO chosen(i, salt, list) AS list[1 + pick(i, salt, len(list))];
CREATE MACRO cents(n) AS CAST(n / 100 AS DECIMAL(9, 2));
CREATE MACRO rarely_null(i, salt, x) AS CASE WHEN pick(i, salt, 40) > 0 THEN x END;

CREATE TABLE date_dim AS
SELECT 2450815 + i AS d_date_sk, d AS d_date, year(d) AS d_year, month(d) AS d_moy, day(d) AS d_dom,
    quarter(d) AS d_qoy,
    year(d) || 'Q' || quarter(d) AS d_quarter_name, dayofweek(d) AS d_dow, dayname(d) AS d_day_name,
    (year(d) - 1900) * 12 + month(d) - 1 AS d_month_seq, 5100 + (i + 4) // 7 AS d_week_seq
FROM (SELECT i, DATE '1998-01-01' + CAST(i AS INTEGER) AS d FROM range(1826) AS t(i));

CREATE TABLE time_dim AS
SELECT i AS t_time_sk, i * 1800 AS t_time, i // 2 AS t_hour, i % 2 * 30 AS t_minute,
    CASE WHEN i BETWEEN 12 AND 17 THEN 'breakfast' WHEN i BETWEEN 24 AND 27 THEN 'lunch'
        WHEN i BETWEEN 34 AND 39 THEN 'dinner' END AS t_meal_time
FROM range(48) AS t(i);

CREATE TABLE income_band AS
SELECT i AS ib_income_band_sk, i * 20000 AS ib_lower_bound, i * 20000 + 20000 AS ib_upper_bound
FROM range(1, 6) AS t(i);

CREATE TABLE household_demographics AS
SELECT i + 1 AS hd_demo_sk, 1 + i % 5 AS hd_income_band_sk,
    ['0-500', '501-1000', '1001-5000', '5001-10000', '>10000', 'Unknown'][1 + i // 5 % 6] AS hd_buy_potential,
    i // 30 % 5 AS hd_dep_count, i // 150 AS hd_vehicle_count
FROM range(600) AS t(i);

CREATE TABLE customer_demographics AS
SELECT i + 1 AS cd_demo_sk, ['M', 'F'][1 + i % 2] AS cd_gender, ['M', 'S', 'D', 'W',
    'U'][1 + i // 2 % 5] AS cd_marital_status,
    ['College', '2 yr Degree', '4 yr Degree', 'Secondary', 'Advanced Degree',
        'Unknown'][1 + i // 10 % 6] AS cd_education_status,
    500 * (1 + i // 60 % 4) AS cd_purchase_estimate, ['Good', 'Low Risk', 'High Risk',
        'Unknown'][1 + i // 60 % 4] AS cd_credit_rating,
    i // 60 % 3 AS cd_dep_count, i // 60 % 2 AS cd_dep_employed_count, i // 120 AS cd_dep_college_count
FROM range(240) AS t(i);

-- A register of addresses, whoever lives there: public.
CREATE TABLE customer_address AS
SELECT i AS ca_address_sk, 1 + i % 90 || '' AS ca_street_number,
    chosen(i, 'street', ['Oak', 'Main', 'Park', 'Hill']) AS ca_street_name,
    ['Fairview', 'Midway', 'Oakland', 'Salem', 'Union', 'Liberty', 'Clinton', 'Newport'][1 + i % 8] AS ca_city,
    ['Williamson County', 'Ziebach County', 'Walker County', 'Dona Ana County', 'Richland County',
        'Rush County'][1 + i % 6] AS ca_county,
    ['TN', 'GA', 'TX', 'OH', 'KY', 'IN', 'CA', 'NM', 'WA', 'VA', 'IL', 'MS'][1 + i % 12] AS ca_state,
    lpad((24000 + i % 24 * 731)::VARCHAR, 5, '0') AS ca_zip, 'United States' AS ca_country, CASE WHEN i % 3 = 0 THEN -6
        ELSE -5 END AS ca_gmt_offset,
    chosen(i, 'place', ['apartment', 'condo', 'single family']) AS ca_location_type
FROM range(1, 601) AS t(i);

CREATE TABLE item AS
SELECT i AS i_item_sk, 'ITEM' || lpad(((i + 1) // 2)::VARCHAR, 4, '0') AS i_item_id, 'about item ' || i AS i_item_desc,
    cents(99 + pick(i, 'price', 9900)) AS i_current_price, cents(50 + pick(i, 'cost', 6000)) AS i_wholesale_cost,
    1 + i % 10 AS i_category_id, ['Books', 'Home', 'Electronics', 'Jewelry', 'Sports', 'Music', 'Women', 'Men',
        'Children', 'Shoes'][1 + i % 10] AS i_category,
    1 + i // 10 % 4 AS i_class_id, ['Books', 'Home', 'Electronics', 'Jewelry', 'Sports', 'Music', 'Women', 'Men',
        'Children', 'Shoes'][1 + i % 10] || ' class ' || 1 + i // 10 % 4 AS i_class,
    1001000 * (1 + i % 10) + 1 + i % 3 AS i_brand_id, 'brand ' || 1001000 * (1 + i % 10) + 1 + i % 3 AS i_brand,
    1 + i % 15 AS i_manufact_id, 'maker ' || 1 + i % 15 AS i_manufact, 1 + i % 12 AS i_manager_id,
    chosen(i, 'size', ['small', 'medium', 'large', 'extra large', 'petite', 'N/A']) AS i_size,
    chosen(i, 'color', ['red', 'blue', 'green', 'slate', 'peach', 'ivory', 'orchid', 'pale']) AS i_color,
    chosen(i, 'units', ['Each', 'Dozen', 'Case', 'Pound', 'Oz']) AS i_units, 'Unknown' AS i_container,
        'product ' || i AS i_product_name
FROM range(1, 121) AS t(i);

CREATE TABLE store AS
SELECT i AS s_store_sk, 'STORE' || i AS s_store_id, ['ought', 'able', 'pri', 'ese', 'anti', 'cally'][i] AS s_store_name,
    200 + 20 * i AS s_number_employees, 1000000 * i AS s_floor_space, 1 + i % 6 AS s_market_id, 1 AS s_company_id,
        'Unknown' AS s_company_name,
    ['Fairview', 'Midway', 'Midway', 'Fairview', 'Oakland', 'Midway'][i] AS s_city, ['Williamson County',
        'Ziebach County'][1 + i % 2] AS s_county,
    ['TN', 'GA', 'OH'][1 + i % 3] AS s_state, lpad((24000 + i * 731)::VARCHAR, 5, '0') AS s_zip, CASE
        WHEN i < 5 THEN -5 ELSE -6 END AS s_gmt_offset
FROM range(1, 7) AS t(i);

CREATE TABLE warehouse AS
SELECT i AS w_warehouse_sk, ['Conventional childr', 'Important issues liv', 'Doors canno',
    'Bad cards must make'][i] AS w_warehouse_name,
    100000 * i AS w_warehouse_sq_ft, ['Fairview', 'Midway'][1 + i % 2] AS w_city, 'Williamson County' AS w_county,
        ['TN', 'GA'][1 + i % 2] AS w_state, 'United States' AS w_country
FROM range(1, 5) AS t(i);

CREATE TABLE ship_mode AS
SELECT i AS sm_ship_mode_sk, ['EXPRESS', 'OVERNIGHT', 'REGULAR'][1 + i % 3] AS sm_type, ['DHL', 'BARIAN', 'UPS',
    'FEDEX'][1 + i % 4] AS sm_carrier FROM range(1, 7) AS t(i);

CREATE TABLE reason AS SELECT i AS r_reason_sk, 'reason ' || i AS r_reason_desc FROM range(1, 9) AS t(i);

CREATE TABLE promotion AS
SELECT i AS p_promo_sk, CASE WHEN i % 2 = 0 THEN 'Y' ELSE 'N' END AS p_channel_dmail, CASE WHEN i % 3 = 0 THEN 'Y'
    ELSE 'N' END AS p_channel_email,
    'N' AS p_channel_tv, CASE WHEN i % 4 = 0 THEN 'Y' ELSE 'N' END AS p_channel_event
FROM range(1, 13) AS t(i);

CREATE TABLE call_center AS
SELECT i AS cc_call_center_sk, 'CC' || i AS cc_call_center_id, ['North Midwest', 'Mid Atlantic',
    'Pacific'][i] AS cc_name, ['Bob', 'Larry', 'Mark'][i] AS cc_manager,
    ['Williamson County', 'Ziebach County', 'Walker County'][i] AS cc_county
FROM range(1, 4) AS t(i);

CREATE TABLE catalog_page AS SELECT i AS cp_catalog_page_sk, 'PAGE' || lpad(i::VARCHAR, 3, '0') AS cp_catalog_page_id
FROM range(1, 21) AS t(i);

CREATE TABLE web_page AS SELECT i AS wp_web_page_sk, 4700 + 100 * i AS wp_char_count FROM range(1, 13) AS t(i);

CREATE TABLE web_site AS
SELECT i AS web_site_sk, 'SITE' || i AS web_site_id, 'site_' || i AS web_name, ['pri', 'able',
    'cally'][1 + i % 3] AS web_company_name FROM range(1, 5) AS t(i);

CREATE TABLE inventory AS
SELECT 2450815 + day AS inv_date_sk, item AS inv_item_sk, house AS inv_warehouse_sk,
    pick(day || '-' || item || '-' || house, 'stock', 100) AS inv_quantity_on_hand
FROM range(3, 1826, 28) AS a(day), range(1, 121) AS b(item), range(1, 5) AS c(house);

CREATE TABLE customer AS
SELECT i AS customer_sk, 'CUST' || lpad(i::VARCHAR, 8, '0') AS c_customer_id,
    chosen(i, 'title', ['Dr.', 'Mr.', 'Mrs.', 'Ms.']) AS c_salutation,
    chosen(i, 'first', ['Ann', 'Bob', 'Eve', 'Joe', 'Sue', 'Tom']) AS c_first_name,
        chosen(i, 'last', ['Smith', 'Jones', 'Brown', 'Davis', 'Moore', 'Hall', 'Young']) AS c_last_name,
    1 + pick(i, 'cdemo', 240) AS c_current_cdemo_sk, 1 + pick(i, 'hdemo', 600) AS c_current_hdemo_sk,
        1 + pick(i, 'address', 600) AS c_current_addr_sk,
    chosen(i, 'preferred', ['Y', 'N']) AS c_preferred_cust_flag, 1 + pick(i, 'day', 28) AS c_birth_day,
        1 + pick(i, 'month', 12) AS c_birth_month,
    1930 + pick(i, 'year', 60) AS c_birth_year, chosen(i, 'country', ['CHILE', 'GABON', 'JAPAN',
        'TOGO']) AS c_birth_country
FROM range(1, 1001) AS t(i);

-- Each customer has six tickets in the stores, of four items; three orders by catalog and two on the web, of four items.
CREATE TABLE store_sales AS
SELECT customer_sk, 2450815 + pick(ticket, 'date', 1826) AS ss_sold_date_sk,
    pick(ticket, 'time', 48) AS ss_sold_time_sk, item AS ss_item_sk,
    1 + pick(ticket, 'cdemo', 240) AS ss_cdemo_sk, 1 + pick(ticket, 'hdemo', 600) AS ss_hdemo_sk,
        1 + pick(ticket, 'address', 600) AS ss_addr_sk,
    rarely_null(ticket, 'no store', 1 + pick(ticket, 'store', 6)) AS ss_store_sk,
        1 + pick(line, 'promo', 12) AS ss_promo_sk, ticket AS ss_ticket_number,
    quantity AS ss_quantity, cents(cost) AS ss_wholesale_cost, cents(list) AS ss_list_price,
        cents(sale) AS ss_sales_price,
    cents((list - sale) * quantity) AS ss_ext_discount_amt, cents(sale * quantity) AS ss_ext_sales_price,
        cents(cost * quantity) AS ss_ext_wholesale_cost,
    cents(list * quantity) AS ss_ext_list_price, cents(sale * quantity // 20) AS ss_ext_tax,
        cents(coupon) AS ss_coupon_amt,
    cents(sale * quantity - coupon) AS ss_net_paid, cents((sale - cost) * quantity - coupon) AS ss_net_profit
FROM (SELECT *, CASE WHEN pick(line, 'coupon', 5) = 0 THEN sale * quantity // 4 ELSE 0 END AS coupon
    FROM (SELECT *, list * (40 + pick(line, 'off', 60)) // 100 AS sale
        FROM (SELECT i AS line, i // 4 AS ticket, 1 + i // 4 % 1000 AS customer_sk,
        1 + (pick(i // 4, 'item', 120) + i % 4 * 37) % 120 AS item, 1 + pick(i, 'number', 10) AS quantity,
            10 + pick(i, 'cost', 990) AS cost, 15 + pick(i, 'list', 1985) AS list
    FROM range(24000) AS t(i))));

CREATE TABLE catalog_sales AS
SELECT customer_sk, 2450815 + pick(ticket, 'c date', 1826) AS cs_sold_date_sk,
    pick(ticket, 'c time', 48) AS cs_sold_time_sk,
    2450815 + least(1825, pick(ticket, 'c date', 1826) + 2 + pick(ticket, 'c ship', 130)) AS cs_ship_date_sk,
        item AS cs_item_sk,
    1 + pick(ticket, 'c cdemo', 240) AS cs_bill_cdemo_sk, 1 + pick(ticket, 'c hdemo', 600) AS cs_bill_hdemo_sk,
        1 + pick(ticket, 'c address', 600) AS cs_bill_addr_sk,
    rarely_null(ticket, 'no address', 1 + pick(ticket, 'c ship address', 600)) AS cs_ship_addr_sk,
        1 + pick(ticket, 'center', 3) AS cs_call_center_sk,
    1 + pick(line, 'page', 20) AS cs_catalog_page_sk, 1 + pick(ticket, 'c mode', 6) AS cs_ship_mode_sk,
        1 + pick(line, 'c house', 4) AS cs_warehouse_sk,
    1 + pick(line, 'c promo', 12) AS cs_promo_sk, ticket AS cs_order_number, quantity AS cs_quantity,
        cents(cost) AS cs_wholesale_cost, cents(list) AS cs_list_price,
    cents(sale) AS cs_sales_price, cents((list - sale) * quantity) AS cs_ext_discount_amt,
        cents(sale * quantity) AS cs_ext_sales_price,
    cents(cost * quantity) AS cs_ext_wholesale_cost, cents(list * quantity) AS cs_ext_list_price,
        cents(coupon) AS cs_coupon_amt, cents(quantity * 50) AS cs_ext_ship_cost,
    cents(sale * quantity - coupon) AS cs_net_paid, cents((sale - cost) * quantity - coupon) AS cs_net_profit
FROM (SELECT *, CASE WHEN pick(line, 'c coupon', 5) = 0 THEN sale * quantity // 4 ELSE 0 END AS coupon
    FROM (SELECT *, list * (40 + pick(line, 'c off', 60)) // 100 AS sale
        FROM (SELECT i AS line, i // 4 AS ticket, 1 + i // 4 % 1000 AS customer_sk,
        1 + (pick(i // 4, 'c item', 120) + i % 4 * 37) % 120 AS item, 1 + pick(i, 'c number', 10) AS quantity,
            10 + pick(i, 'c cost', 990) AS cost, 15 + pick(i, 'c list', 1985) AS list
    FROM range(12000) AS t(i))));

CREATE TABLE web_sales AS
SELECT customer_sk, 2450815 + pick(ticket, 'w date', 1826) AS ws_sold_date_sk,
    pick(ticket, 'w time', 48) AS ws_sold_time_sk,
    2450815 + least(1825, pick(ticket, 'w date', 1826) + 2 + pick(ticket, 'w ship', 130)) AS ws_ship_date_sk,
        item AS ws_item_sk,
    1 + pick(ticket, 'w address', 600) AS ws_bill_addr_sk, 1 + pick(ticket, 'w ship address', 600) AS ws_ship_addr_sk,
        1 + pick(ticket, 'w hdemo', 600) AS ws_ship_hdemo_sk,
    1 + pick(line, 'w page', 12) AS ws_web_page_sk, 1 + pick(ticket, 'site', 4) AS ws_web_site_sk,
        1 + pick(ticket, 'w mode', 6) AS ws_ship_mode_sk,
    1 + pick(line, 'w house', 4) AS ws_warehouse_sk, rarely_null(line, 'no promo',
        1 + pick(line, 'w promo', 12)) AS ws_promo_sk, ticket AS ws_order_number,
    quantity AS ws_quantity, cents(cost) AS ws_wholesale_cost, cents(list) AS ws_list_price,
        cents(sale) AS ws_sales_price,
    cents((list - sale) * quantity) AS ws_ext_discount_amt, cents(sale * quantity) AS ws_ext_sales_price,
        cents(cost * quantity) AS ws_ext_wholesale_cost,
    cents(list * quantity) AS ws_ext_list_price, cents(quantity * 50) AS ws_ext_ship_cost,
        cents(sale * quantity) AS ws_net_paid, cents((sale - cost) * quantity) AS ws_net_profit
FROM (SELECT *, list * (40 + pick(line, 'w off', 60)) // 100 AS sale
    FROM (SELECT i AS line, i // 4 AS ticket, 1 + i // 4 % 1000 AS customer_sk,
    1 + (pick(i // 4, 'w item', 120) + i % 4 * 37) % 120 AS item, 1 + pick(i, 'w number', 10) AS quantity,
        10 + pick(i, 'w cost', 990) AS cost, 15 + pick(i, 'w list', 1985) AS list
    FROM range(8000) AS t(i)));

CREATE TABLE store_returns AS
SELECT customer_sk, least(2452640, ss_sold_date_sk + 1 + pick(line, 's back', 150)) AS sr_returned_date_sk,
    ss_item_sk AS sr_item_sk, ss_cdemo_sk AS sr_cdemo_sk,
    ss_store_sk AS sr_store_sk, 1 + pick(line, 's reason', 8) AS sr_reason_sk, ss_ticket_number AS sr_ticket_number,
        1 + pick(line, 's number', ss_quantity) AS sr_return_quantity,
    ss_ext_sales_price AS sr_return_amt, CAST(ss_ext_sales_price / 10 AS DECIMAL(9, 2)) AS sr_net_loss
FROM (SELECT *, ss_ticket_number || '-' || ss_item_sk AS line FROM store_sales) WHERE pick(line, 's returned', 6) = 0;

CREATE TABLE catalog_returns AS
SELECT customer_sk, least(2452640, cs_sold_date_sk + 1 + pick(line, 'c back', 150)) AS cr_returned_date_sk,
    cs_item_sk AS cr_item_sk, cs_bill_addr_sk AS cr_returning_addr_sk,
    cs_call_center_sk AS cr_call_center_sk, cs_catalog_page_sk AS cr_catalog_page_sk,
        cs_warehouse_sk AS cr_warehouse_sk, 1 + pick(line, 'c reason', 8) AS cr_reason_sk,
    cs_order_number AS cr_order_number, 1 + pick(line, 'c number', cs_quantity) AS cr_return_quantity,
        cs_ext_sales_price AS cr_return_amount,
    CAST(cs_ext_sales_price / 2 AS DECIMAL(9, 2)) AS cr_refunded_cash,
        CAST(cs_ext_sales_price / 10 AS DECIMAL(9, 2)) AS cr_net_loss
FROM (SELECT *, cs_order_number || '-' || cs_item_sk AS line FROM catalog_sales) WHERE pick(line, 'c returned', 6) = 0;

CREATE TABLE web_returns AS
SELECT customer_sk, least(2452640, ws_sold_date_sk + 1 + pick(line, 'w back', 150)) AS wr_returned_date_sk,
    ws_item_sk AS wr_item_sk,
    1 + pick(line, 'w cdemo', 240) AS wr_refunded_cdemo_sk, 1 + pick(line, 'w cdemo', 240) AS wr_returning_cdemo_sk,
        ws_bill_addr_sk AS wr_refunded_addr_sk,
    ws_bill_addr_sk AS wr_returning_addr_sk, ws_web_page_sk AS wr_web_page_sk,
        1 + pick(line, 'w reason', 8) AS wr_reason_sk, ws_order_number AS wr_order_number,
    1 + pick(line, 'w number', ws_quantity) AS wr_return_quantity, ws_ext_sales_price AS wr_return_amt,
        CAST(ws_ext_sales_price / 20 AS DECIMAL(9, 2)) AS wr_fee,
    CAST(ws_ext_sales_price / 2 AS DECIMAL(9, 2)) AS wr_refunded_cash,
        CAST(ws_ext_sales_price / 10 AS DECIMAL(9, 2)) AS wr_net_loss
FROM (SELECT *, ws_order_number || '-' || ws_item_sk AS line FROM web_sales) WHERE pick(line, 'w returned', 6) = 0;
