"""The `onepass` command, in this process."""

from __future__ import annotations

import sys

import pytest

from pipeline import cli


def onepass(*arguments: str) -> int:
    """Run the command; its exit code. What it prints is pytest's to capture."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["onepass", *arguments])
        patch.setenv("COLUMNS", "500")  # messages hold long paths; none is to be wrapped
        with pytest.raises(SystemExit) as stop:
            cli.main()
    return int(stop.value.code or 0)
