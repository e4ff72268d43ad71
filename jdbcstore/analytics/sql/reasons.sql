-- Messages that became dead letters, by where they came from and why; of any broker while they wait.
WITH dead AS (
  SELECT destination, reason, removed, msgid_prod, msgid_seq FROM history WHERE state = 'dead'
), letters AS (
  SELECT coalesce(original_destination, destination) AS destination,
    properties['dlqDeliveryFailureCause'].text AS reason, broker_in_time AS removed, msgid_prod, msgid_seq
  FROM messages_decoded
  WHERE xid IS NULL
    AND (properties['dlqDeliveryFailureCause'] IS NOT NULL OR destination LIKE 'queue://ActiveMQ.DLQ%')
)
SELECT destination, reason, count(*) AS messages, min(removed) AS first, max(removed) AS last
FROM (
  SELECT destination, reason, removed FROM dead
  UNION ALL
  SELECT destination, reason, removed FROM letters
  WHERE NOT EXISTS (
    SELECT 1 FROM dead WHERE dead.msgid_prod = letters.msgid_prod AND dead.msgid_seq = letters.msgid_seq
  )
)
GROUP BY destination, reason
ORDER BY messages DESC, destination, reason
