"""`make image-test`: builds docker/Dockerfile, and runs docker/compose.yml with it, on a Debian
machine as root. No Docker and no registry of images is needed.

Podman and Buildah of Debian take the place of Docker. The images of others (Python, PostgreSQL,
Valkey, nginx) are replaced by stand-ins with the same names, made of Debian's packages
(`standins/`). Everything runs in mount, network and process namespaces of its own, which end with
it: no port of this machine is used. What is built is kept in var/image.
`python -m tests.image packages` prints the packages of Debian that it needs and are missing here.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.image.engine import (
    FOLDER,
    OURS,
    ROOT,
    STANDINS,
    built_here,
    environment,
    images,
    write_settings,
)

PROGRAMS = {
    "buildah": "buildah",
    "podman": "podman",
    "crun": "crun",
    "/usr/libexec/podman/catatonit": "catatonit",
    "/usr/lib/podman/netavark": "netavark",
    "/usr/lib/podman/aardvark-dns": "aardvark-dns",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "debootstrap": "debootstrap",
    "openssl": "openssl",
}
"""Each with its package of Debian; `make engine` installs those that are missing."""
RELEASE = "bookworm"
PIP_SETTINGS = {"index-url", "extra-index-url", "find-links", "trusted-host", "cert", "timeout"}
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")


def main() -> int:
    if missing := why_not():
        print(f"The image cannot be tried here: {missing}.", file=sys.stderr)
        return 1
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_settings()
    build_base()
    for name, image in images().items():
        if name == OURS:
            build_ours(image)
        else:
            build_standin(name, image)
    command = [*NAMESPACES, sys.executable, "-m", "tests.image.run"]
    return subprocess.run(command, cwd=ROOT, env=environment(), check=False).returncode


def why_not() -> str:
    if os.geteuid() != 0:
        return "it needs root, for namespaces and mounts"
    if lost := missing():
        packages = " ".join(PROGRAMS[name] for name in lost)
        return f"{', '.join(lost)} missing; on Debian: apt-get install {packages}"
    tried = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else ""


def missing() -> list[str]:
    path = environment()["PATH"]
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


def build_base() -> None:
    """Debian with its Python, under the name that the Dockerfile begins with."""
    image = base_image()
    if has(image):
        return
    root = FOLDER / "base"
    shutil.rmtree(root, ignore_errors=True)
    print(f"{image}: a stand-in by debootstrap", flush=True)
    packages = "--include=python3,python3-venv,ca-certificates"
    run("debootstrap", "--variant=minbase", packages, RELEASE, str(root), *mirror())
    for name in ("python", "python3"):
        (root / "usr/local/bin" / name).symlink_to("/usr/bin/python3")
    shutil.rmtree(root / "var/cache/apt")
    container = run("buildah", "from", "scratch").strip()
    run("buildah", "add", "--quiet", container, str(root), "/")
    run("buildah", "commit", "--quiet", "--rm", container, image)
    shutil.rmtree(root)


def mirror() -> list[str]:
    """The one that this machine's apt takes the release from; debootstrap has a default else."""
    listed = run("apt-get", "indextargets", "--format", "$(REPO_URI)", f"Codename: {RELEASE}")
    return listed.splitlines()[:1]


def base_image() -> str:
    found = re.search(r"^ARG PYTHON=(\S+)$", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE)
    assert found
    return built_here(f"python:{found[1]}")


def build_standin(name: str, image: str) -> None:
    file = STANDINS / name / "Containerfile"
    if not file.exists():
        sys.exit(f"{image} of docker/compose.yml has no stand-in: write {file.relative_to(ROOT)}")
    build(image, file.parent, file, "--build-arg", f"BASE={base_image()}")


def build_ours(image: str) -> None:
    """With the registry and the certificates of this machine's pip; none of it is in the image."""
    pip = FOLDER / "pip.conf"
    pip.touch(0o600)
    pip.write_text(settings_of_pip())
    options = ["--volume", f"{pip}:/etc/pip.conf:ro"]
    if Path("/etc/ssl/certs").is_dir():
        options += ["--volume", "/etc/ssl/certs:/etc/ssl/certs:ro"]
    try:
        build(image, ROOT, ROOT / "docker" / "Dockerfile", *options)
    finally:
        pip.unlink()


def settings_of_pip() -> str:
    """What `pip config list` says, of files and variables."""
    listed = run(sys.executable, "-m", "pip", "config", "list").splitlines()
    pairs = {}
    for line in listed:
        name, _, value = line.partition("=")
        name = name.rpartition(".")[2]
        if name in PIP_SETTINGS:
            pairs[name] = ast.literal_eval(value)
    return "[global]\n" + "".join(f"{name} = {value}\n" for name, value in pairs.items())


def build(image: str, context: Path, file: Path, *options: str) -> None:
    print(f"{image}: {file.relative_to(ROOT)}", flush=True)
    fixed = ["--isolation", "chroot", "--format", "docker", "--layers"]
    run("buildah", "bud", *fixed, *options, "--tag", image, "--file", str(file), str(context))


def has(image: str) -> bool:
    found = subprocess.run(
        ["buildah", "inspect", "--type", "image", image],
        env=environment(),
        capture_output=True,
        check=False,
    )
    return found.returncode == 0


def run(*command: str) -> str:
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command[:2])} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1:] == ["packages"]:
        print(*[PROGRAMS[name] for name in missing()])
    else:
        sys.exit(main())
