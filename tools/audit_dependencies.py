"""`make audit-dependencies`: the packages of constraints.txt have no known vulnerability.

pip-audit alone ends well if the index serves no advisories: it skips the packages. A package that
was not audited fails here. Arguments are passed on to pip-audit.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PIP_AUDIT = Path(sys.executable).parent / "pip-audit"
CURE = (
    "Run it where https://pypi.org can be reached, which serves advisories (mirrors do not), or"
    ' with ARGS="--vulnerability-service osv" where https://api.osv.dev can be.'
)


def main() -> None:
    command = (PIP_AUDIT, "--format", "json", "--progress-spinner", "off", "--disable-pip")
    listed = ("--no-deps", "--requirement", str(ROOT / "constraints.txt"))
    done = subprocess.run(
        [*command, *listed, *sys.argv[1:]], capture_output=True, text=True, check=False
    )
    try:
        report = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.strip().splitlines() or ["no output"]
        sys.exit(f"pip-audit failed, nothing was audited: {lines[-1]}\n{CURE}")
    problems = problems_of(report["dependencies"])
    if problems:
        sys.exit("\n".join(problems))
    print(f"No known vulnerability in {len(report['dependencies'])} packages.")


def problems_of(packages: list[Mapping[str, Any]]) -> list[str]:
    """A line for each vulnerability, and one for the packages that were not audited."""
    problems = [
        f"{one['name']} {one['version']}: {found['id']}, {_cure(found['fix_versions'])}"
        for one in packages
        for found in one.get("vulns", ())
    ]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    if skipped or not packages:
        problems.append(f"{len(skipped)} of {len(packages)} packages were not audited. {CURE}")
    return problems


def _cure(versions: list[str]) -> str:
    return f"fixed in {', '.join(versions)}" if versions else "not fixed yet"


if __name__ == "__main__":
    main()
