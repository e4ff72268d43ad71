-- How long messages that are gone had been stored, by destination and hour of removal.
-- Between two milliseconds a percentile has five digits at most: so no two engines round it differently.
SELECT date_trunc('HOUR', removed) AS hour, destination, count(*) AS messages,
  round(median(dwell), 5) AS median_seconds,
  round(percentile_cont(0.95) WITHIN GROUP (ORDER BY dwell), 5) AS p95_seconds,
  max(dwell) AS longest_seconds
FROM history
WHERE removed IS NOT NULL AND dwell IS NOT NULL
GROUP BY 1, 2
ORDER BY hour, destination
