"""The machine type of a Google Cloud worker, asked of the machine itself. Standard library only."""

from __future__ import annotations

import urllib.request
from pathlib import Path

_METADATA = "http://metadata.google.internal"
_SECONDS = 2.0


def machine_type(root: Path = Path("/"), metadata: str = _METADATA) -> str | None:
    """Such as `c4-standard-24`; None elsewhere, or when the machine does not say.

    The firmware tells whether this is Google Cloud, so that no other machine looks for a metadata
    server it does not have.
    """
    try:
        product = (root / "sys/class/dmi/id/product_name").read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None
    if not product.startswith("Google"):
        return None
    request = urllib.request.Request(
        f"{metadata}/computeMetadata/v1/instance/machine-type",
        headers={"Metadata-Flavor": "Google"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as response:
            # projects/NUMBER/machineTypes/NAME
            return str(response.read().decode("ascii").strip().rsplit("/", 1)[-1]) or None
    except (OSError, UnicodeDecodeError):
        return None
