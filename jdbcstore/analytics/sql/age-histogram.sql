-- Messages by age: within a minute, an hour, a day, a week, older.
SELECT age, count(*) AS messages, min(timestamp) AS oldest, max(timestamp) AS newest
FROM (
  SELECT timestamp,
    CASE
      WHEN timestamp > current_timestamp - INTERVAL 1 MINUTE THEN '1 up to a minute'
      WHEN timestamp > current_timestamp - INTERVAL 1 HOUR THEN '2 up to an hour'
      WHEN timestamp > current_timestamp - INTERVAL 1 DAY THEN '3 up to a day'
      WHEN timestamp > current_timestamp - INTERVAL 7 DAY THEN '4 up to a week'
      ELSE '5 older'
    END AS age
  FROM messages_decoded
  WHERE timestamp IS NOT NULL
)
GROUP BY age
ORDER BY age
