"""The image without an image engine: its file is linted, and what its steps do is done here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dataflow.image import check

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "dataflow/Dockerfile"
SCRIPTS = sorted((ROOT / "dataflow/image").glob("*.sh"))


def instructions(name: str) -> list[str]:
    joined = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = [line.split(None, 1) for line in joined.splitlines() if line.strip()]
    return [line[1] for line in lines if line[0] == name]


def test_the_linter_has_nothing_to_say() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_stop_at_the_first_failure(script: Path) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    assert "set -euo pipefail" in script.read_text()


def test_everything_copied_exists_and_passes_the_ignore_file() -> None:
    passed = {
        line[1:] for line in Path(f"{DOCKERFILE}.dockerignore").read_text().splitlines()
        if line.startswith("!")
    }  # fmt: skip
    for copy in instructions("COPY"):
        if copy.startswith("--from="):
            continue
        for source in copy.split()[:-1]:
            assert (ROOT / source).exists(), source
            assert source.split("/")[0] in passed, source


def test_every_script_is_run_and_every_version_is_fixed() -> None:
    runs = " ".join(instructions("RUN"))
    assert all(script.name in runs for script in SCRIPTS)
    assert "dataflow.image.check" in runs
    assert not [line for line in instructions("FROM") if "latest" in line]
    assert instructions("ENTRYPOINT") == ['["/opt/apache/beam/boot"]']


def test_no_secret_goes_into_the_image() -> None:
    text = DOCKERFILE.read_text() + "".join(script.read_text() for script in SCRIPTS)
    for word in ("password", "token", "secret", "credential", ".json", "ADD "):
        assert word not in text


def test_the_installed_program_has_all_its_files(tmp_path: Path) -> None:
    """Packs what the image copies, as `program.sh` does, and looks into the package."""
    source = tmp_path / "source"
    for copy in instructions("COPY"):
        *names, target = copy.split()
        if target.startswith("source/"):
            for name in names:
                where = tmp_path / target / (Path(name).name if target.endswith("/") else "")
                if (ROOT / name).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / name, where, ignore=ignored)
                else:
                    where.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(ROOT / name, where)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps",
               "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)]  # fmt: skip
    subprocess.run(command, check=True, cwd=tmp_path)
    (wheel,) = tmp_path.glob("onepass-*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    needed = {
        str(path.relative_to(source))
        for package in ("rubrics", "engine", "pipeline", "dataflow", "configs")
        for path in (source / package).rglob("*")
        if path.suffix
        in (".py", ".sql", ".yaml", ".json", ".jsonl", ".safetensors", ".html", ".css")
    }
    assert len(needed) > 80
    assert not needed - packed


def test_preloading_puts_one_openmp_and_the_allocator_in_use(tmp_path: Path) -> None:
    """`check` on this machine: torch's OpenMP is found in use, a missing allocator is told."""
    import importlib.util

    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.submodule_search_locations
    openmp = tmp_path / "libgomp.so.1"
    openmp.symlink_to(Path(spec.submodule_search_locations[0]) / "lib/libgomp.so.1")
    program = "from dataflow.image.check import _libraries; print(_libraries())"
    environment = {**os.environ, "LD_PRELOAD": str(openmp), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['libtcmalloc is not preloaded']"


def test_another_beam_and_missing_programs_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "_engine", list)
    monkeypatch.setattr(check, "_libraries", list)
    found = check.problems("2.1.0", [tmp_path / "boot"])
    assert found == [
        "apache-beam is 2.77.0, the worker's start-up program is of 2.1.0",
        f"{tmp_path}/boot is not an executable file",
    ]


@pytest.mark.image
def test_the_steps_of_the_build_in_a_clean_environment(tmp_path: Path) -> None:
    """Runs `packages.sh` and `program.sh` in a new environment, then the read of `check`.

    As root on Debian it runs `system.sh` too; elsewhere the allocator has to be there already.
    """
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")},
        "PATH": f"{home}/bin:{os.environ['PATH']}",
        "PRELOAD_FOLDER": str(tmp_path / "preload"),
    }

    def run(*command: str) -> None:
        subprocess.run(command, check=True, env=environment, cwd=tmp_path)

    if os.geteuid() == 0 and shutil.which("apt-get"):
        run("bash", str(ROOT / "dataflow/image/system.sh"))
    run("bash", str(ROOT / "dataflow/image/packages.sh"), str(ROOT / "dataflow/requirements.txt"))
    source = tmp_path / "source"
    shutil.copytree(
        ROOT, source, ignore=shutil.ignore_patterns(".git", ".venv", "out", "__pycache__", "tests")
    )
    run("bash", str(ROOT / "dataflow/image/program.sh"), str(source))
    environment["LD_PRELOAD"] = ":".join(
        str(tmp_path / "preload" / name) for name in ("libtcmalloc_minimal.so", "libgomp.so.1")
    )
    program = "from dataflow.image.check import problems; assert problems('2.77.0', ()) == []"
    run("python", "-c", program)
