-- ClickBench's questions in our own words; questions.py says how this file is read.

-- 0. How many pages were seen?
SELECT count(*) FROM hits;

-- 1. How many of them were reached through an advertisement?
SELECT count(*) FROM hits WHERE AdvEngineID <> 0;

-- 2. What are a total, a count and a mean over the whole table?
SELECT sum(AdvEngineID), count(*), avg(ResolutionWidth) FROM hits;

-- 3. What is the mean of the visitors' numbers?
SELECT avg(UserID) FROM hits;

-- 4. How many visitors were there?
SELECT count(DISTINCT UserID) FROM hits;

-- 5. How many different phrases were looked for?
SELECT count(DISTINCT SearchPhrase) FROM hits;

-- 6. On which days does the table begin and end?
SELECT min(EventDate), max(EventDate) FROM hits;

-- 7. How many pages were reached through each engine of advertisements?
-- possible: SELECT unnest(range(1, 6))
SELECT AdvEngineID, count(*) AS hits
FROM hits WHERE AdvEngineID <> 0
GROUP BY AdvEngineID
ORDER BY hits DESC;

-- 8. Which ten regions have most visitors?
-- possible: SELECT unnest(range(1, 10))
SELECT RegionID, count(DISTINCT UserID) AS visitors
FROM hits
GROUP BY RegionID
ORDER BY visitors DESC, RegionID
LIMIT 10;

-- 9. What did the ten busiest regions see: advertisements, pages, mean width, visitors?
-- possible: SELECT unnest(range(1, 10))
SELECT RegionID, sum(AdvEngineID), count(*) AS hits, avg(ResolutionWidth), count(DISTINCT UserID)
FROM hits
GROUP BY RegionID
ORDER BY hits DESC, RegionID
LIMIT 10;

-- 10. Which ten models of phones do most visitors have?
SELECT MobilePhoneModel, count(DISTINCT UserID) AS visitors
FROM hits WHERE MobilePhoneModel <> ''
GROUP BY MobilePhoneModel
ORDER BY visitors DESC, MobilePhoneModel
LIMIT 10;

-- 11. Which ten models of phones, with their makes, do most visitors have?
-- possible: SELECT unnest(range(0, 10)), model FROM unnest(['iPad', 'iPhone', 'Lumia']) m(model)
SELECT MobilePhone, MobilePhoneModel, count(DISTINCT UserID) AS visitors
FROM hits WHERE MobilePhoneModel <> ''
GROUP BY MobilePhone, MobilePhoneModel
ORDER BY visitors DESC, MobilePhone, MobilePhoneModel
LIMIT 10;

-- 12. Which ten phrases were looked for most often?
SELECT SearchPhrase, count(*) AS hits
FROM hits WHERE SearchPhrase <> ''
GROUP BY SearchPhrase
ORDER BY hits DESC, SearchPhrase
LIMIT 10;

-- 13. Which ten phrases were looked for by most visitors?
SELECT SearchPhrase, count(DISTINCT UserID) AS visitors
FROM hits WHERE SearchPhrase <> ''
GROUP BY SearchPhrase
ORDER BY visitors DESC, SearchPhrase
LIMIT 10;

-- 14. Which ten phrases were looked for most often, by search engine?
SELECT SearchEngineID, SearchPhrase, count(*) AS hits
FROM hits WHERE SearchPhrase <> ''
GROUP BY SearchEngineID, SearchPhrase
ORDER BY hits DESC, SearchEngineID, SearchPhrase
LIMIT 10;

-- 15. Which ten visitors saw most pages?
-- refused: DPQ402, it shows visitors
SELECT UserID, count(*) AS hits FROM hits GROUP BY UserID ORDER BY hits DESC, UserID LIMIT 10;

-- 16. Which visitors looked most often for the same phrase?
-- refused: DPQ402, it shows visitors
SELECT UserID, SearchPhrase, count(*) AS hits
FROM hits GROUP BY UserID, SearchPhrase ORDER BY hits DESC, UserID, SearchPhrase LIMIT 10;

-- 17. How often did ten visitors look for a phrase?
-- refused: DPQ402, it shows visitors
SELECT UserID, SearchPhrase, count(*) FROM hits GROUP BY UserID, SearchPhrase LIMIT 10;

-- 18. Which visitors looked most often for a phrase, by minute of the hour?
-- refused: DPQ402, it shows visitors
SELECT UserID, extract(minute FROM EventTime) AS minute, SearchPhrase, count(*) AS hits
FROM hits GROUP BY UserID, minute, SearchPhrase ORDER BY hits DESC, UserID LIMIT 10;

-- 19. Is a visitor with this number in the table?
-- refused: DPQ301, it shows a visitor
SELECT UserID FROM hits WHERE UserID = 100000000000000007;

-- 20. How many pages have an address with a certain word?
SELECT count(*) FROM hits WHERE URL LIKE '%google%';

-- 21. Which phrases led to such pages, and to which first by the alphabet?
-- refused: DPQ208, the first address of all is one visitor's
SELECT SearchPhrase, min(URL), count(*) AS hits
FROM hits WHERE URL LIKE '%google%' AND SearchPhrase <> ''
GROUP BY SearchPhrase
ORDER BY hits DESC, SearchPhrase
LIMIT 10;

-- 22. The same of titles, with the number of visitors?
-- refused: DPQ208, the first address of all is one visitor's
SELECT SearchPhrase, min(URL), min(Title), count(*) AS hits, count(DISTINCT UserID)
FROM hits WHERE Title LIKE '%Google%' AND URL NOT LIKE '%.google.%' AND SearchPhrase <> ''
GROUP BY SearchPhrase
ORDER BY hits DESC, SearchPhrase
LIMIT 10;

-- 23. Which are the ten earliest views of such pages, with all their columns?
-- refused: DPQ301, it shows rows
SELECT * FROM hits WHERE URL LIKE '%google%' ORDER BY EventTime LIMIT 10;

-- 24. Which ten phrases were looked for first?
-- refused: DPQ301, it shows rows
SELECT SearchPhrase FROM hits WHERE SearchPhrase <> '' ORDER BY EventTime LIMIT 10;

-- 25. Which ten phrases of visits are first by the alphabet?
-- refused: DPQ301, it shows rows
SELECT SearchPhrase FROM hits WHERE SearchPhrase <> '' ORDER BY SearchPhrase LIMIT 10;

-- 26. Which ten phrases were looked for first, and of the same moment by the alphabet?
-- refused: DPQ301, it shows rows
SELECT SearchPhrase FROM hits WHERE SearchPhrase <> '' ORDER BY EventTime, SearchPhrase LIMIT 10;

-- 27. On which busy sites are addresses longest, on the mean?
SELECT CounterID, avg(length(URL)) AS long, count(*) AS hits
FROM hits WHERE URL <> ''
GROUP BY CounterID
HAVING count(*) > 1000
ORDER BY long DESC, CounterID
LIMIT 25;

-- 28. From which sites do visitors come, how long are those addresses, and which is first?
-- refused: DPQ208, the first address of a site is one visitor's
SELECT regexp_replace(Referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') AS site,
       avg(length(Referer)) AS long, count(*) AS hits, min(Referer)
FROM hits WHERE Referer <> ''
GROUP BY site
HAVING count(*) > 100
ORDER BY long DESC, site
LIMIT 25;

-- 29. What are ninety sums of one column, each of it and another number?
SELECT sum(ResolutionWidth), sum(ResolutionWidth + 1), sum(ResolutionWidth + 2), sum(ResolutionWidth + 3), sum(ResolutionWidth + 4),
       sum(ResolutionWidth + 5), sum(ResolutionWidth + 6), sum(ResolutionWidth + 7), sum(ResolutionWidth + 8), sum(ResolutionWidth + 9),
       sum(ResolutionWidth + 10), sum(ResolutionWidth + 11), sum(ResolutionWidth + 12), sum(ResolutionWidth + 13), sum(ResolutionWidth + 14),
       sum(ResolutionWidth + 15), sum(ResolutionWidth + 16), sum(ResolutionWidth + 17), sum(ResolutionWidth + 18), sum(ResolutionWidth + 19),
       sum(ResolutionWidth + 20), sum(ResolutionWidth + 21), sum(ResolutionWidth + 22), sum(ResolutionWidth + 23), sum(ResolutionWidth + 24),
       sum(ResolutionWidth + 25), sum(ResolutionWidth + 26), sum(ResolutionWidth + 27), sum(ResolutionWidth + 28), sum(ResolutionWidth + 29),
       sum(ResolutionWidth + 30), sum(ResolutionWidth + 31), sum(ResolutionWidth + 32), sum(ResolutionWidth + 33), sum(ResolutionWidth + 34),
       sum(ResolutionWidth + 35), sum(ResolutionWidth + 36), sum(ResolutionWidth + 37), sum(ResolutionWidth + 38), sum(ResolutionWidth + 39),
       sum(ResolutionWidth + 40), sum(ResolutionWidth + 41), sum(ResolutionWidth + 42), sum(ResolutionWidth + 43), sum(ResolutionWidth + 44),
       sum(ResolutionWidth + 45), sum(ResolutionWidth + 46), sum(ResolutionWidth + 47), sum(ResolutionWidth + 48), sum(ResolutionWidth + 49),
       sum(ResolutionWidth + 50), sum(ResolutionWidth + 51), sum(ResolutionWidth + 52), sum(ResolutionWidth + 53), sum(ResolutionWidth + 54),
       sum(ResolutionWidth + 55), sum(ResolutionWidth + 56), sum(ResolutionWidth + 57), sum(ResolutionWidth + 58), sum(ResolutionWidth + 59),
       sum(ResolutionWidth + 60), sum(ResolutionWidth + 61), sum(ResolutionWidth + 62), sum(ResolutionWidth + 63), sum(ResolutionWidth + 64),
       sum(ResolutionWidth + 65), sum(ResolutionWidth + 66), sum(ResolutionWidth + 67), sum(ResolutionWidth + 68), sum(ResolutionWidth + 69),
       sum(ResolutionWidth + 70), sum(ResolutionWidth + 71), sum(ResolutionWidth + 72), sum(ResolutionWidth + 73), sum(ResolutionWidth + 74),
       sum(ResolutionWidth + 75), sum(ResolutionWidth + 76), sum(ResolutionWidth + 77), sum(ResolutionWidth + 78), sum(ResolutionWidth + 79),
       sum(ResolutionWidth + 80), sum(ResolutionWidth + 81), sum(ResolutionWidth + 82), sum(ResolutionWidth + 83), sum(ResolutionWidth + 84),
       sum(ResolutionWidth + 85), sum(ResolutionWidth + 86), sum(ResolutionWidth + 87), sum(ResolutionWidth + 88), sum(ResolutionWidth + 89)
FROM hits;

-- 30. Which addresses and engines searched most: pages, refreshed ones, mean width?
SELECT SearchEngineID, ClientIP, count(*) AS hits, sum(IsRefresh), avg(ResolutionWidth)
FROM hits WHERE SearchPhrase <> ''
GROUP BY SearchEngineID, ClientIP
ORDER BY hits DESC, SearchEngineID, ClientIP
LIMIT 10;

-- 31. The same of single views that searched?
-- differs: none
-- found: SELECT WatchID, ClientIP FROM hits GROUP BY ALL HAVING count(DISTINCT UserID) > 1
SELECT WatchID, ClientIP, count(*) AS hits, sum(IsRefresh), avg(ResolutionWidth)
FROM hits WHERE SearchPhrase <> ''
GROUP BY WatchID, ClientIP
ORDER BY hits DESC, WatchID, ClientIP
LIMIT 10;

-- 32. The same of all single views?
-- differs: none
-- found: SELECT WatchID, ClientIP FROM hits GROUP BY ALL HAVING count(DISTINCT UserID) > 1
SELECT WatchID, ClientIP, count(*) AS hits, sum(IsRefresh), avg(ResolutionWidth)
FROM hits
GROUP BY WatchID, ClientIP
ORDER BY hits DESC, WatchID, ClientIP
LIMIT 10;

-- 33. Which ten pages were seen most often?
SELECT URL, count(*) AS hits FROM hits GROUP BY URL ORDER BY hits DESC, URL LIMIT 10;

-- 34. The same, beside a constant?
SELECT 1 AS one, URL, count(*) AS hits FROM hits GROUP BY one, URL ORDER BY hits DESC, URL LIMIT 10;

-- 35. From which ten addresses were most pages seen, beside their neighbours?
SELECT ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3, count(*) AS hits
FROM hits
GROUP BY ClientIP, ClientIP - 1, ClientIP - 2, ClientIP - 3
ORDER BY hits DESC, ClientIP
LIMIT 10;

-- 36. Which ten pages of a site were seen most often in a month, not counting refreshed ones?
SELECT URL, count(*) AS hits
FROM hits
WHERE CounterID = 62 AND EventDate BETWEEN DATE '2013-07-01' AND DATE '2013-07-31'
  AND DontCountHits = 0 AND IsRefresh = 0 AND URL <> ''
GROUP BY URL
ORDER BY hits DESC, URL
LIMIT 10;

-- 37. Which ten titles?
SELECT Title, count(*) AS hits
FROM hits
WHERE CounterID = 62 AND EventDate BETWEEN DATE '2013-07-01' AND DATE '2013-07-31'
  AND DontCountHits = 0 AND IsRefresh = 0 AND Title <> ''
GROUP BY Title
ORDER BY hits DESC, Title
LIMIT 10;

-- 38. Which of its links were followed less often than the first few?
SELECT URL, count(*) AS hits
FROM hits
WHERE CounterID = 62 AND EventDate BETWEEN DATE '2013-07-01' AND DATE '2013-07-31'
  AND IsRefresh = 0 AND IsLink <> 0 AND IsDownload = 0
GROUP BY URL
ORDER BY hits DESC, URL
LIMIT 5 OFFSET 3;

-- 39. From which sources to which pages of a site did visitors come, after the first few?
SELECT TraficSourceID, SearchEngineID, AdvEngineID,
       CASE WHEN SearchEngineID = 0 AND AdvEngineID = 0 THEN Referer ELSE '' END AS source,
       URL AS target, count(*) AS hits
FROM hits
WHERE CounterID = 62 AND EventDate BETWEEN DATE '2013-07-01' AND DATE '2013-07-31' AND IsRefresh = 0
GROUP BY TraficSourceID, SearchEngineID, AdvEngineID, source, target
ORDER BY hits DESC, TraficSourceID, SearchEngineID, AdvEngineID, source, target
LIMIT 10 OFFSET 5;

-- 40. Which pages of a site were reached on which days from one other page, after the first few?
SELECT URLHash, EventDate, count(*) AS hits
FROM hits
WHERE CounterID = 62 AND EventDate BETWEEN DATE '2013-07-01' AND DATE '2013-07-31'
  AND IsRefresh = 0 AND TraficSourceID IN (-1, 5) AND RefererHash = 2
GROUP BY URLHash, EventDate
ORDER BY hits DESC, URLHash, EventDate
LIMIT 10 OFFSET 5;

-- 41. In windows of which sizes was one page of a site seen?
SELECT WindowClientWidth, WindowClientHeight, count(*) AS hits
FROM hits
WHERE CounterID = 62 AND EventDate BETWEEN DATE '2013-07-01' AND DATE '2013-07-31'
  AND IsRefresh = 0 AND DontCountHits = 0 AND URLHash = 3001
GROUP BY WindowClientWidth, WindowClientHeight
ORDER BY hits DESC, WindowClientWidth, WindowClientHeight
LIMIT 10 OFFSET 1;

-- 42. How many pages of a site were seen in the minutes of two days in which some were?
SELECT date_trunc('minute', EventTime) AS minute, count(*) AS hits
FROM hits
WHERE CounterID = 62 AND IsRefresh = 0 AND DontCountHits = 0
  AND EventTime >= TIMESTAMP '2013-07-14' AND EventTime < TIMESTAMP '2013-07-16'
GROUP BY minute
HAVING count(*) > 0
ORDER BY minute
LIMIT 10 OFFSET 10;
