"""What pip calls to make a wheel or an archive of this tree (PEP 517): it configures and makes heddle in a folder of
its own, `build-pip`, and setuptools packs what `make python-program` puts together there.

    pip install . -C build-dir=build            uses a folder that is configured already
    pip install . -C configure=--without-onnx   gives options to configure: here, leaves ONNX files out
"""
from __future__ import annotations

import gzip
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tarfile
from typing import Any

SOURCE = pathlib.Path(__file__).resolve().parent.parent
CONFIGURE = ["--with-libzip", "--with-turbojpeg", "--with-onnx", "--without-cuda", "--without-nccl", "--without-mpi",
             "--without-scdoc", "--disable-dependency-tracking"]


def _run(command: list[str], folder: pathlib.Path, remedy: str) -> None:
    """Runs a step of the build; its output is pip's."""
    try:
        code = subprocess.run(command, cwd=folder, stdout=sys.stderr, check=False).returncode
    except OSError as error:
        sys.exit(f"heddle: expected {command[0]} to run, found {error.strerror}; {remedy}")
    if code:
        words = " ".join([os.path.basename(command[0]), *command[1:]])
        sys.exit(f"heddle: expected {words} to succeed, found exit code {code}; {remedy}")


def _configured(settings: dict[str, Any] | None) -> pathlib.Path:
    """A configured build folder."""
    settings = settings or {}
    unknown = set(settings) - {"build-dir", "configure"}
    if unknown:
        sys.exit(f"heddle: expected build-dir or configure as a setting, found {sorted(unknown)[0]}; leave it out")
    remedy = "read the lines above: tools/install-deps --build prints how to install what is missing"
    if not (SOURCE / "configure").exists():
        _run(["./bootstrap"], SOURCE, remedy)
    own = SOURCE if (SOURCE / "config.status").exists() else SOURCE / "build-pip"
    build = pathlib.Path(settings.get("build-dir") or own).absolute()
    if not (build / "Makefile").exists() or "configure" in settings:
        build.mkdir(parents=True, exist_ok=True)
        asked = settings.get("configure") or []
        words = shlex.split(asked) if isinstance(asked, str) else list(asked)
        _run([str(SOURCE / "configure"), *CONFIGURE, *words], build, remedy)
    return build


def _make(build: pathlib.Path, target: str) -> None:
    # Each make starts its own job server.
    for name in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL"):
        os.environ.pop(name, None)
    _run(["make", f"-j{len(os.sched_getaffinity(0))}", target, f"PYTHON={sys.executable}"], build,
         "read the lines above")


def build_wheel(wheel_directory: str, config_settings: dict[str, Any] | None = None,
                metadata_directory: str | None = None) -> str:
    """Makes the wheel for this machine, which links the libraries of its system."""
    from setuptools import build_meta

    build = _configured(config_settings)
    _make(build, "python-program")
    wheel_directory = os.path.abspath(wheel_directory)
    os.chdir(build / "python" / "stage")
    return build_meta.build_wheel(wheel_directory)


def build_sdist(sdist_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Packs the files of `make dist`, configure among them, under the name that pip expects."""
    build = _configured(config_settings)
    _make(build, "distdir")
    version = (build / "python" / "version").read_text(encoding="utf-8").strip()
    name = f"heddle-{version}"
    (build / name / "PKG-INFO").write_text(
        f"Metadata-Version: 2.1\nName: heddle\nVersion: {version}\nRequires-Python: >=3.9\n", encoding="utf-8")
    path = pathlib.Path(sdist_directory, name + ".tar.gz")
    with gzip.GzipFile(path, "wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w",
                                                                    format=tarfile.PAX_FORMAT) as archive:
        archive.add(build / name, name)
    shutil.rmtree(build / name)
    return path.name
