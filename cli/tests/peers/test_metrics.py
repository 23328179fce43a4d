"""Reads the metrics with the parser of Prometheus' own client."""

from __future__ import annotations

import socket
from pathlib import Path

import requests
from prometheus_client.parser import text_string_to_metric_families

from conftest import Files
from service import Service, sudare


def test_metrics_are_read_by_prometheus(files: Files, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Service(tmp_path, f"--metrics 127.0.0.1:{port}") as service:
        tenant = service.tenant("clinic")
        (tmp_path / "token").write_text(tenant.token)
        line = f"remote stats --evaluation-key {files.used['keys'].path} -i {files.used['tables'].path} -o result.ct"
        sudare(tmp_path, f"{line} --url {service.url} --token-file token")
        got = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60)
    assert got.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(got.text)}
    assert all(family.documentation and family.type != "unknown" for family in families.values())
    assert families["sudare_jobs_ended"].samples[0].value == 1
    assert {family.type for family in families.values()} == {"counter", "gauge", "histogram"}
    for name in ("request_duration", "job_duration", "job_wait"):
        family = families[f"sudare_{name}_seconds"]
        assert family.type == "histogram"
        histograms: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
        counts = {}
        for sample in family.samples:
            labels = tuple(sorted((label, value) for label, value in sample.labels.items() if label != "le"))
            if sample.name.endswith("_bucket"):
                histograms.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
            elif sample.name.endswith("_count"):
                counts[labels] = sample.value
        assert histograms.keys() == counts.keys() and counts
        for labels, buckets in histograms.items():
            values = [value for _, value in sorted(buckets)]
            assert values == sorted(values) and values[-1] == counts[labels] > 0
            assert buckets[-1][0] == float("inf")
    routes = {sample.labels["route"] for sample in families["sudare_request_duration_seconds"].samples}
    assert {"/v1/jobs", "/v1/keys"} <= routes
