-- The twenty producers of the most messages, stored or gone.
SELECT msgid_prod AS producer, count(*) AS messages, sum(size) AS bytes,
  count(DISTINCT destination) AS destinations, min(produced) AS first, max(produced) AS last
FROM history
GROUP BY msgid_prod
ORDER BY messages DESC, producer
LIMIT 20
