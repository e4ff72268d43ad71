-- Messages waiting, by destination: how many, how large, how old the oldest is.
SELECT destination, depth, bytes, expired, in_doubt, oldest, round(oldest_age) AS oldest_seconds
FROM destinations
ORDER BY depth DESC, destination
