"""Which vLLM this plugin may extend."""

from __future__ import annotations

VERIFIED = ("0.32.0",)


class UnverifiedVllmError(RuntimeError):
    """The installed vLLM is not one the plugin was verified with."""


def check() -> None:
    """Raise `UnverifiedVllmError` unless the running vLLM is one of `VERIFIED`."""
    from vllm import __version__

    refuse_unverified(__version__)


def refuse_unverified(version: str) -> None:
    """Raise `UnverifiedVllmError` unless `version`, without its local part, is in `VERIFIED`."""
    if version.split("+")[0] not in VERIFIED:
        raise UnverifiedVllmError(
            f"vLLM {version}: onepass subclasses and overrides parts of vLLM and was verified "
            f"with {', '.join(VERIFIED)} only; install that version, or set VLLM_PLUGINS='' to "
            "run this one without onepass"
        )
