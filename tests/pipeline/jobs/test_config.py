"""Jobs: every problem at once, each with file and key; names resolve wherever one stands."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
import yaml
from google.cloud import storage

import configs
from pipeline.input.shards import match_shards
from pipeline.jobs.config import load_build, load_job, load_rubrics
from pipeline.jobs.running import pipeline_options
from pipeline.yaml_files import ConfigError
from tests.gcs import beam_uses, bucket, gcs_url

__all__ = ["bucket", "gcs_url"]

RUBRIC = {
    "id": "tone",
    "version": "1",
    "questions": [{"id": "polite", "type": "noul", "text": "Is the customer polite?"}],
}


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory with a build, a rubric and a shard; nothing of the repository in it."""
    monkeypatch.chdir(tmp_path)
    write("build.yaml", {"threads": 1})
    write("rubrics/tone.yaml", RUBRIC)
    Path("in").mkdir()
    Path("in/a.jsonl").write_text(json.dumps({"text": "Hello."}) + "\n", encoding="utf-8")
    return tmp_path


def write(path: str, value: object) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(yaml.safe_dump(value), encoding="utf-8")
    return path


def job_file(**changes: object) -> str:
    job: dict[str, object] = {
        "build": "build.yaml",
        "rubrics": "rubrics/*.yaml",
        "input": "in/*.jsonl",
        "output": "out",
    }
    return write(
        "jobs/nightly.yaml", {k: v for k, v in {**job, **changes}.items() if v != "absent"}
    )


def problems_of(**changes: object) -> list[str]:
    with pytest.raises(ConfigError) as error:
        load_job(job_file(**changes))
    return error.value.problems


@pytest.mark.usefixtures("workplace")
class TestLoadJob:
    def test_names_come_from_the_files(self) -> None:
        loaded = load_job(job_file())
        assert loaded.job.name == "nightly"
        assert loaded.build.name == "build"
        assert loaded.build.threads == 1
        assert [rubric.id for rubric in loaded.rubrics] == ["tone"]
        assert loaded.job.input == ("in/*.jsonl",)
        assert loaded.notes == ()

    def test_defaults_are_the_documented_ones(self) -> None:
        job = load_job(job_file()).job
        assert (job.dialect, job.samples, job.seed, job.on_too_long) == ("lines", 1, 42, "reject")
        assert (job.max_error_rate, job.runner, job.records_per_part) == (0.01, "FnApiRunner", 1000)
        assert job.limit is None
        assert job.run_date is None

    def test_overrides_replace_what_the_file_says(self) -> None:
        loaded = load_job(job_file(limit=5), {"limit": 2, "output": "elsewhere", "seed": None})
        assert (loaded.job.limit, loaded.job.output, loaded.job.seed) == (2, "elsewhere", 42)

    def test_a_date_may_be_given_as_text_or_as_yaml_reads_it(self) -> None:
        assert load_job(job_file(run_date="2026-11-29")).job.run_date == date(2026, 11, 29)
        assert load_job(job_file(run_date=date(2026, 11, 29))).job.run_date == date(2026, 11, 29)

    def test_direct_runner_becomes_the_in_process_runner_and_says_so(self) -> None:
        loaded = load_job(job_file(runner="DirectRunner"))
        assert loaded.job.runner == "FnApiRunner"
        assert loaded.notes == (
            "runner DirectRunner runs as FnApiRunner, Beam's in-process runner",
        )

    def test_options_reach_beam(self) -> None:
        options = {"direct_running_mode": "multi_processing", "direct_num_workers": 2}
        found = pipeline_options(load_job(job_file(options=options))).get_all_options()
        assert found["runner"] == "FnApiRunner"
        assert found["direct_running_mode"] == "multi_processing"
        assert found["direct_num_workers"] == 2

    def test_every_problem_is_reported_at_once(self) -> None:
        write("bad-build.yaml", {"dtype": "int8", "colour": "red"})
        write("rubrics/bad.yaml", {"id": "bad", "version": "1", "questions": []})
        problems = problems_of(
            build="bad-build.yaml",
            input="in/*.parquet",
            samples=0,
            limt=3,
            options={"direct_num_worker": 2},
        )
        text = "\n".join(problems)
        for expected in (
            "jobs/nightly.yaml: samples: Input should be greater than or equal to 1 (it is 0)",
            "jobs/nightly.yaml: limt: unknown key; remove it or correct its spelling",
            "jobs/nightly.yaml: options.direct_num_worker: not a pipeline option of Beam",
            "bad-build.yaml: dtype: Input should be 'bfloat16' or 'float32' (it is 'int8')",
            "bad-build.yaml: colour: unknown key",
            "input in/*.parquet: no file matches",
            "rubrics/bad.yaml",
        ):
            assert expected in text
        assert len(problems) >= 7

    def test_a_missing_key_is_named(self) -> None:
        assert "jobs/nightly.yaml: output: is missing; add it" in problems_of(output="absent")
        assert "jobs/nightly.yaml: build: is missing; add it" in problems_of(build="absent")

    def test_an_override_is_named_as_one(self) -> None:
        with pytest.raises(ConfigError) as error:
            load_job(job_file(), {"limit": 0})
        assert error.value.problems == [
            "override: limit: Input should be greater than or equal to 1 (it is 0)"
        ]

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            ("build: a\nbuild: b\n", "not valid YAML: key build appears twice"),
            ("1: a\n", "not valid YAML: key 1 is not text"),
            ("- a\n", "must be a mapping of keys to values"),
            ("", "must be a mapping of keys to values"),
            ("a: [", "not valid YAML"),
            ("a: \udcff", "not UTF-8 at byte 3; save it as UTF-8"),
        ],
    )
    def test_a_file_that_is_no_job(self, content: str, problem: str) -> None:
        Path("job.yaml").write_bytes(content.encode("utf-8", "surrogateescape"))
        with pytest.raises(ConfigError) as error:
            load_job("job.yaml")
        assert error.value.problems[0].startswith(f"job.yaml: {problem}")

    def test_a_job_that_is_not_there(self) -> None:
        with pytest.raises(ConfigError, match=r"job nowhere/job\.yaml: no such file"):
            load_job("nowhere/job.yaml")
        with pytest.raises(ConfigError, match="job weekly: none ships by that name; use demo, "):
            load_job("weekly")

    def test_a_folder_as_input_says_what_a_shard_is(self) -> None:
        (problem,) = problems_of(input="in")
        assert problem == (
            "input in: not a shard; shards end in .jsonl, .jsonl.gz, .jsonl.zst, .parquet"
        )

    def test_the_runner_is_no_option(self) -> None:
        (problem,) = problems_of(options={"runner": "PrismRunner"})
        assert problem == "jobs/nightly.yaml: options.runner: state it as the job's runner"

    def test_input_of_an_unknown_kind(self) -> None:
        with pytest.raises(ConfigError) as error:
            match_shards(["ftp://host/*.jsonl"])
        (problem,) = error.value.problems
        assert problem.startswith("input ftp://host/*.jsonl: cannot be listed: ")

    def test_dataflow_needs_remote_paths(self) -> None:
        problems = problems_of(runner="DataflowRunner", output="out")
        assert problems == [
            "jobs/nightly.yaml: input: in/*.jsonl is local; DataflowRunner needs gs:// paths",
            "jobs/nightly.yaml: output: out is local; DataflowRunner needs gs:// paths",
        ]


@pytest.mark.usefixtures("workplace")
class TestReferences:
    def test_two_rubrics_of_one_id_are_refused(self) -> None:
        write("rubrics/zone.yaml", RUBRIC)
        with pytest.raises(ConfigError) as error:
            load_rubrics(["rubrics/*.yaml"])
        assert error.value.problems == [
            "rubrics/zone.yaml: id: tone is also the id of rubrics/tone.yaml; rename one"
        ]

    def test_a_rubric_named_twice_counts_once(self) -> None:
        found = load_rubrics(["rubrics/*.yaml", "rubrics/tone.yaml", "triage"])
        assert [rubric.id for rubric in found] == ["tone", "triage"]

    def test_rubrics_that_match_nothing(self) -> None:
        with pytest.raises(ConfigError) as error:
            load_rubrics(["nowhere/*.yaml", "no-such-rubric"])
        assert error.value.problems[0] == "rubrics: nowhere/*.yaml: no file matches"
        assert "no-such-rubric" in error.value.problems[1]

    def test_configs_of_the_current_directory_come_before_those_that_ship(self) -> None:
        write("configs/builds/mine.yaml", {"dtype": "float32"})
        assert load_build("mine").dtype == "float32"
        assert load_build("configs/builds/mine.yaml").name == "mine"

    def test_what_ships_is_found_from_anywhere(self) -> None:
        loaded = load_job("demo")
        assert (loaded.job.name, loaded.build.name) == ("demo", "single_pass")
        assert [rubric.id for rubric in loaded.rubrics] == ["triage"]
        assert match_shards(loaded.job.input)

    def test_every_build_that_ships_loads(self) -> None:
        folder = Path(configs.__file__).parent / "builds"
        names = [path.stem for path in folder.glob("*.yaml")]
        assert {"baseline", "single_pass"} <= set(names)
        assert [load_build(name).name for name in names] == names


@pytest.mark.usefixtures("workplace")
def test_a_job_and_all_it_names_may_lie_in_a_bucket(
    bucket: storage.Bucket, gcs_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    beam_uses(gcs_url, monkeypatch)
    root = f"gs://{bucket.name}"
    job = job_file(
        build=f"{root}/build.yaml",
        rubrics=f"{root}/rubrics/*.yaml",
        input=f"{root}/in/*.jsonl",
        output=f"{root}/out",
        runner="DataflowRunner",
    )
    for path in (job, "build.yaml", "rubrics/tone.yaml"):
        bucket.blob(path).upload_from_filename(path)
    loaded = load_job(f"{root}/{job}")
    assert (loaded.job.name, loaded.build.threads) == ("nightly", 1)
    assert [rubric.id for rubric in loaded.rubrics] == ["tone"]

    bucket.blob("rubrics/bad.yaml").upload_from_string("id: bad")
    with pytest.raises(ConfigError) as error:
        load_job(f"{root}/{job}", {"build": f"{root}/gone.yaml"})
    assert error.value.problems[0] == f"{root}/gone.yaml: cannot be read: no such file"
    assert all(
        problem.startswith(f"{root}/rubrics/bad.yaml") for problem in error.value.problems[1:]
    )
    with pytest.raises(ConfigError, match=r"gone\.yaml: cannot be read: no such file"):
        load_rubrics([f"{root}/rubrics/gone.yaml"])
