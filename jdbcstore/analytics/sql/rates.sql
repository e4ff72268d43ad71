-- Messages produced and messages gone, by minute and destination, and the difference so far.
SELECT minute, destination, sum(produced) AS produced, sum(gone) AS gone,
  sum(sum(change)) OVER (PARTITION BY destination ORDER BY minute) AS waiting
FROM (
  SELECT date_trunc('MINUTE', produced) AS minute, destination, 1 AS produced, 0 AS gone,
    CASE WHEN state = 'archived' THEN 0 ELSE 1 END AS change
  FROM history WHERE produced IS NOT NULL
  UNION ALL
  SELECT date_trunc('MINUTE', removed), destination, 0, 1, -1
  FROM history WHERE produced IS NOT NULL AND removed IS NOT NULL
)
GROUP BY minute, destination
ORDER BY minute, destination
