"""Keeps the logs of Beam, vLLM and their friends off the terminal unless they are asked for."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOUD = ("apache_beam", "vllm", "torch", "transformers", "google", "urllib3", "engine", "root")


@contextmanager
def log_level(verbose: bool) -> Iterator[None]:
    """Logs at INFO when `verbose`, else nothing below CRITICAL, while the block runs.

    Errors are not lost: what fails a run is raised, and told in one line.
    """
    level = logging.INFO if verbose else logging.CRITICAL
    # vLLM, torch's C++ side and child processes read these as they load.
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "INFO" if verbose else "ERROR")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "WARNING" if verbose else "ERROR")
    if not verbose:
        os.environ.setdefault("PYTHONWARNINGS", "ignore")
    root = logging.getLogger()
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [root, *(logging.getLogger(name) for name in _LOUD)]
    before = [logger.level for logger in loggers]
    root.addHandler(handler)
    for logger in loggers:
        logger.setLevel(level)
    try:
        with warnings.catch_warnings():
            if not verbose:
                warnings.simplefilter("ignore")
            yield
    finally:
        root.removeHandler(handler)
        for logger, old in zip(loggers, before, strict=True):
            logger.setLevel(old)
