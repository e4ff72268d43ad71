-- Destinations whose messages, stored or gone, were delivered before and came back.
SELECT destination, count(*) AS messages, max(redeliveries) AS most, sum(redeliveries) AS redeliveries
FROM history
WHERE redeliveries > 0
GROUP BY destination
ORDER BY redeliveries DESC, destination
