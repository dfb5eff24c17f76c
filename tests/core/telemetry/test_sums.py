"""The numbers of several processes as one page."""

from waystation.core.app.fleet import summed, without_gauges
from waystation.core.telemetry.metrics import Metrics


def page(*queues: str, held: int = 0) -> bytes:
    metrics = Metrics()
    for queue in queues:
        metrics.jobs_completed.of(queue).inc(2)
        metrics.job_processing.of(queue).observe(0.003)
    metrics.jobs_held.of("bullmq", "mail").set(held)
    return metrics.expose()


def test_counters_gauges_and_histograms_are_added_up() -> None:
    lines = summed([page("mail", held=3), page("mail", "sms", held=4)]).decode().splitlines()

    assert 'jobs_completed_total{queue="mail"} 4.0' in lines
    assert 'jobs_completed_total{queue="sms"} 2.0' in lines
    assert 'job_processing_duration_seconds_bucket{le="0.005",queue="mail"} 2.0' in lines
    assert 'waystation_jobs_held{product="bullmq",queue="mail"} 7.0' in lines
    assert lines.count("# TYPE jobs_completed_total counter") == 1


def test_all_samples_of_a_metric_follow_each_other() -> None:
    lines = summed([page("mail"), page("sms")]).decode().splitlines()
    names = [line.partition("{")[0] for line in lines if line.startswith("jobs_completed")]
    first = lines.index('jobs_completed_total{queue="mail"} 2.0')
    assert lines[first + 1] == 'jobs_completed_total{queue="sms"} 2.0'
    assert names == ["jobs_completed_total"] * 2


def test_the_sum_of_one_page_is_that_page() -> None:
    assert summed([page("mail", "sms", held=1)]) == page("mail", "sms", held=1)
    assert summed([]) == b""


def test_a_process_that_has_ended_leaves_its_counters_and_holds_nothing() -> None:
    left = without_gauges(page("mail", held=3)).decode()
    assert 'jobs_completed_total{queue="mail"} 2.0' in left
    assert "job_processing_duration_seconds_count" in left
    assert "waystation_jobs_held" not in left
    assert "gauge" not in left
