from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from engine.builds import Build, load_build

BUILDS = Path(__file__).parents[2] / "configs" / "builds"


def test_the_shipped_builds_differ_where_they_say() -> None:
    builds = {path.stem: load_build(path) for path in BUILDS.glob("*.yaml")}
    assert builds.keys() >= {"baseline", "flag_off", "single_pass", "fp32", "serial"}
    settings = {name: build.model_dump(exclude={"name"}) for name, build in builds.items()}
    single_pass = settings["single_pass"]
    assert settings["flag_off"] == single_pass | {"single_pass_reads": False}
    assert settings["baseline"] == settings["flag_off"] | {
        "joined_label_sets": False,
        "block_size": 128,
        "canvas_only_last_layer": False,
    }
    assert settings["fp32"] == single_pass | {"dtype": "float32"}
    assert settings["serial"] == single_pass | {"max_num_seqs": 1}


def test_the_name_is_the_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("model: /models/mine\n")
    assert load_build(file).name == "mine"
    assert load_build(file).model == "/models/mine"


def test_every_problem_at_once(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("dtype: float16\ncanvas_length: 20\nmax_num_seq: 3\n")
    with pytest.raises(ValidationError) as caught:
        load_build(file)
    assert {error["loc"][0] for error in caught.value.errors()} == {
        "dtype",
        "canvas_length",
        "max_num_seq",
    }


def test_a_canvas_needs_room_for_a_prompt() -> None:
    with pytest.raises(ValidationError, match="canvas_length 64 leaves no room"):
        Build(name="narrow", max_model_len=64)
