"""`make dist`: what is published of the last commit, in dist/, the same bytes whoever builds it.

Source archive, wheels, SBOM (CycloneDX) and licences of what `pip install msh[embedded]` brings
with constraints.txt, and SHA256SUMS. Archive and wheels are built twice and compared.
"""

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
INSTALLED = ROOT / "var" / "dist-installed"
"""A virtual environment with the wheel and what it needs; `tools/try_wheel.py` uses it too."""
TOOLS = Path(sys.executable).parent
NOT_LISTED = ("msh", "pip")
OF_THEIR_OWN = ("msh_client", "spark_bridge")
"""Folders with a pyproject.toml: wheels that need nothing of the MSH."""


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    first, second = build("UTC"), build("Asia/Kathmandu")
    for name, content in first.items():
        if second[name] != content:
            sys.exit(f"{name} differs between two builds of one commit")
        (DIST / name).write_bytes(content)
    install(next(DIST.glob("msh-*.whl")))
    python = INSTALLED / "bin" / "python"
    describe(python)
    sums = [f"{_sha256(file)}  {file.name}\n" for file in sorted(DIST.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    print("".join(sums), end="")


def build(zone: str) -> dict[str, bytes]:
    """Names and contents of source archive and wheels. What is not committed is not in them."""
    epoch = int(_git("log", "-1", "--format=%ct"))
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(epoch), "TZ": zone}
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "source"), Path(folder, "built")
        source.mkdir()
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "HEAD"))) as committed:
            committed.extractall(source, filter="data")
        build = [TOOLS / "python", "-m", "build", "--no-isolation", "--outdir", built]
        # `build` makes the wheel from the archive, so the archive is complete.
        words: list[list[Path | str]] = [[source]]
        for name in OF_THEIR_OWN:
            shutil.copy(source / "LICENSE", source / name)
            words.append(["--wheel", source / name])
        for each in words:
            subprocess.run(
                [*build, *each],
                env=environment,
                umask=0o022,  # the wheel keeps modes
                stdout=subprocess.DEVNULL,
                check=True,
            )
        return {
            file.name: _alike(file.read_bytes(), epoch)
            if file.name.endswith(".tar.gz")
            else file.read_bytes()
            for file in sorted(built.iterdir())
        }


def _alike(archive: bytes, epoch: int) -> bytes:
    """The source archive without what depends on who packed it: setuptools keeps owners, times and
    modes of the files it finds."""
    plain = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as packed,
        tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(packed.getmembers(), key=lambda found: found.name):
            is_program = member.isdir() or bool(member.mode & 0o100)
            member.mode = 0o755 if is_program else 0o644
            member.mtime, member.pax_headers = epoch, {}
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            target.addfile(member, packed.extractfile(member) if member.isfile() else None)
    return gzip.compress(plain.getvalue(), mtime=epoch)


def install(wheel: Path) -> None:
    shutil.rmtree(INSTALLED, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", INSTALLED], check=True)
    pip = [INSTALLED / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    locked = [sys.executable, ROOT / "tools" / "locked.py", "project", "embedded"]
    needed = subprocess.run(locked, check=True, capture_output=True).stdout
    quiet = [*pip, "install", "--quiet", "--no-deps"]
    by_hash = [*quiet, "--require-hashes", "--requirement", "/dev/stdin"]
    subprocess.run(by_hash, input=needed, check=True)
    subprocess.run([*quiet, wheel], check=True)
    subprocess.run([*pip, "check"], check=True, stdout=subprocess.DEVNULL)


def describe(python: Path) -> None:
    version = next(DIST.glob("msh-*.whl")).name.split("-")[1]
    subprocess.run(
        [
            *(TOOLS / "cyclonedx-py", "environment", "--output-reproducible"),
            *("--pyproject", ROOT / "pyproject.toml", "--mc-type", "application"),
            *("--output-file", DIST / f"msh-{version}.cdx.json", python),
        ],
        check=True,
    )
    subprocess.run(
        [
            *(TOOLS / "pip-licenses", f"--python={python}", "--from=mixed", "--with-urls"),
            *(
                "--format=markdown",
                "--order=name",
                "--fail-on=UNKNOWN",
                "--ignore-packages",
                *NOT_LISTED,
            ),
            f"--output-file={DIST / 'LICENCES.md'}",
        ],
        stdout=subprocess.DEVNULL,
        check=True,
    )


def _git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True).stdout


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
