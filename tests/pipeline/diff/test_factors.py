from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.diff.facts import differing_factors, facts, flat
from tests.pipeline.diff.cases import compared, items
from tests.pipeline.synthetic import write_run

BUILD = {"name": "base", "dtype": "bfloat16", "single_pass_reads": False, "max_num_seqs": 16}
C3 = {"cpu_model": "Xeon 8481C", "machine_type": "c3-standard-44", "threads": 22}
C4 = {"cpu_model": "Xeon 6985P", "machine_type": "c4-standard-24", "threads": 12}


def test_flips_are_attributed_to_the_one_factor_that_differs(tmp_path: Path) -> None:
    """The published pattern: the flag moves 4 of 231, the machine 10, a repeat none."""
    out = str(tmp_path)
    n = 231

    def made(run_id: str, flipped: range, machine: dict, **build: object):
        return write_run(
            out, items(n, flipped=flipped), run_id=run_id, build=run_id, parts=2,
            build_settings={**BUILD, **build, "name": run_id}, engine_fingerprint=machine,
        )  # fmt: skip

    base = made("c3", range(0), C3)
    flag = made("c3_on", range(100, 104), C3, single_pass_reads=True)
    machine = made("c4", range(10), C4)
    both = made("c4_on", range(12), C4, single_pass_reads=True)
    repeat = made("c3_again", range(0), C3)
    found = compared(out, [base, flag, machine, both], noise=repeat).attribution
    flips = {(p.first, p.second): (p.factors, p.flips) for p in found.pairs}
    assert len(flips) == 10
    assert flips["c3", "c3_on"] == (["flag"], 4)
    assert flips["c3", "c4"] == (["machine"], 10)
    assert flips["c3", "c3_again"] == ([], 0)
    assert flips["c4", "c4_on"] == (["flag"], 2)
    assert flips["c3", "c4_on"] == (["flag", "machine"], 12)
    effects = {e.factor: e for e in found.effects}
    assert set(effects) == {"flag", "machine", "repeat"}
    # flag: c3 | c3_on, c3_again | c3_on, c4 | c4_on
    assert (effects["flag"].run_pairs, effects["flag"].flips) == (3, 4 + 4 + 2)
    assert effects["flag"].rate == pytest.approx(10 / 3 / n)
    # machine: c3 | c4, c3_again | c4, c3_on | c4_on
    assert effects["machine"].flips == 10 + 10 + 16
    assert effects["repeat"].above_repeat is None
    above = effects["machine"]
    assert above.above_repeat_low is not None
    assert above.above_repeat_high is not None
    assert 0 < above.above_repeat_low < above.rate < above.above_repeat_high
    (contrast,) = found.contrasts
    assert (contrast.first, contrast.second) == ("machine", "flag")
    assert contrast.low < contrast.difference < contrast.high
    assert contrast.difference == pytest.approx((12 - 10 / 3) / n)


def test_a_factor_is_where_a_fact_differs() -> None:
    base = flat({"job": {"build": BUILD}, "engine": C3})
    assert differing_factors(base, base) == []
    other = flat({"job": {"build": {**BUILD, "max_num_seqs": 1, "name": "serial"}}, "engine": C3})
    assert differing_factors(base, other) == ["batch shape"]
    dtype = flat({"job": {"build": {**BUILD, "dtype": "float32"}}, "engine": C4})
    assert differing_factors(base, dtype) == ["dtype", "machine"]
    unknown = flat({"job": {"build": BUILD, "seed": 7}, "engine": C3})
    assert differing_factors(base, unknown) == ["seed"]


def test_rubrics_are_facts_without_their_text() -> None:
    def job(text: str) -> dict[str, str]:
        return flat({"job": {"rubrics": [{"id": "triage", "version": "1", "instructions": text}]}})

    one, other = job("Be brief."), job("Be exact.")
    assert list(one) == ["job.rubrics.triage"]
    assert one["job.rubrics.triage"].startswith("version 1, ")
    assert differing_factors(one, other) == ["rubrics"]
    assert differing_factors(one, job("Be brief.")) == []


def test_facts_of_a_run_are_flat_text(tmp_path: Path) -> None:
    run = write_run(
        str(tmp_path), items(3), run_id="r", engine_fingerprint={"cpu_features": ["amx", "avx2"]}
    )
    found = facts(run)
    assert found["job.build.model"] == "tiny"
    assert found["engine.cpu_features"] == "amx avx2"
    assert found["onepass_version"]
