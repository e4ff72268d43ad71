-- Destinations whose messages were delivered before and came back.
SELECT destination, count(*) AS messages, max(redelivery_counter) AS most, sum(redelivery_counter) AS redeliveries
FROM messages_decoded
WHERE redelivery_counter > 0
GROUP BY destination
ORDER BY redeliveries DESC, destination
