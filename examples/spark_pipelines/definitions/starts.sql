-- Gold: one row for each queue and hour in which attempts were started.
CREATE MATERIALIZED VIEW starts AS
SELECT product, queue, date_trunc('hour', started_at) AS hour,
       count(*) AS started,
       count_if(outcome = 'retried') AS retried,
       percentile(wait_ms, 0.95) AS wait_p95_ms,
       percentile(run_ms, 0.95) AS run_p95_ms
FROM attempts
GROUP BY product, queue, date_trunc('hour', started_at)
