from __future__ import annotations

import pytest
from google.cloud import storage as cloud

from pipeline import storage
from pipeline.diff.result import load_comparison
from pipeline.output.comparisons import list_comparisons
from tests.gcs import beam_uses, bucket, gcs_url
from tests.pipeline.diff.cases import compared, items, refused
from tests.pipeline.synthetic import write_run

__all__ = ["bucket", "gcs_url"]


def test_runs_in_a_bucket_are_compared_there(
    bucket: cloud.Bucket, gcs_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Part files, spilled rows, tables, record and cleaning up: all in the bucket."""
    beam_uses(gcs_url, monkeypatch)
    out = f"gs://{bucket.name}/out"
    base = write_run(out, items(30), run_id="base", parts=2)
    cand = write_run(out, items(30, flipped=[1, 2]), run_id="cand", build="single_pass", parts=3)
    result = compared(out, [base, cand])
    assert result.overall["flips"] == 2
    assert list_comparisons(out) == [result.id]
    assert load_comparison(out, result.id) == result
    assert storage.find(f"{out}/diffs/**")
    assert not storage.find(f"{out}/_comparisons/*.spill/**")
    other = write_run(out, items(30, dialect="compact"), run_id="other", build="other", parts=2)
    assert "dialect lines in run base, compact in run other" in refused(out, [base, other])
    assert list_comparisons(out) == [result.id]
