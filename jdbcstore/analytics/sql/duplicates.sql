-- Producers that one destination has the same message of more than once.
SELECT destination, msgid_prod, count(*) AS ids, sum(copies - 1) AS duplicates
FROM (
  SELECT destination, msgid_prod, msgid_seq, count(*) AS copies
  FROM messages
  GROUP BY destination, msgid_prod, msgid_seq
)
WHERE copies > 1
GROUP BY destination, msgid_prod
ORDER BY duplicates DESC, destination, msgid_prod
