"""How the wheel is built: `templates/` of the checkout is `msh/templates` of the wheel.

There Django finds them beside the package, and no other package's `templates` is in the way.
"""

import shutil
from pathlib import Path

from setuptools.command.build_py import build_py

TEMPLATES = Path(__file__).resolve().parents[1] / "templates"


class BuildWithTemplates(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # the settings name the folder of a checkout
            folder = Path(self.build_lib, "msh", "templates")
            shutil.copytree(TEMPLATES, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
