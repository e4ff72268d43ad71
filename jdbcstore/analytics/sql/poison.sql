-- Dead letters by where they came from and the cause that the broker gave.
SELECT destination, original_destination, properties['dlqDeliveryFailureCause'].text AS cause,
  count(*) AS messages, min(timestamp) AS oldest, max(timestamp) AS newest
FROM messages_decoded
WHERE properties['dlqDeliveryFailureCause'] IS NOT NULL OR destination LIKE 'queue://ActiveMQ.DLQ%'
GROUP BY ALL
ORDER BY messages DESC, destination, original_destination, cause
