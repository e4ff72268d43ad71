-- Messages that became dead letters, by where they came from and why.
SELECT destination, reason, count(*) AS messages, min(removed) AS first, max(removed) AS last
FROM history
WHERE state = 'dead'
GROUP BY destination, reason
ORDER BY messages DESC, destination, reason
