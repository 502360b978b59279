# SPDX-License-Identifier: MIT
"""Hatchling's hook: the wheel has programs for one platform, and needs no particular Python."""
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformHook(BuildHookInterface):
    """Sets the wheel's tag."""

    def initialize(self, version, build_data):
        platform = Path(self.root, "PLATFORM").read_text(encoding="ascii").strip()
        build_data["tag"] = f"py3-none-{platform}"
        build_data["pure_python"] = False
