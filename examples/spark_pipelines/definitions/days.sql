-- Gold: one row for each queue and day, as plain SQL over a table of this pipeline.
CREATE MATERIALIZED VIEW days AS
SELECT product, queue, `date`,
       count(*) AS items,
       count_if(state = 'completed') AS completed,
       count_if(state IN ('failed', 'dead')) AS failed,
       percentile(total_ms, 0.95) AS total_p95_ms
FROM items
GROUP BY product, queue, `date`
