#!/usr/bin/env python3
"""Installs wheels where there is no Rust and no compiler, and runs the first example of each.

    python3 scripts/test_wheel.py [--python COMMAND] [WHEEL…]

All that are in wheels/ are tested unless some are named. The example is taken from the wheel's own
description, which is python/README.md; it has to print what its comment says, in SECONDS. Then the
command of the wheel exports the owner's page, which the wheel has to have. A wheel for this machine
gets a virtual environment. One for ARM with glibc is run by QEMU elsewhere, without a limit of
time: that takes qemu-user and mmdebstrap of Debian, which puts a Python for ARM into target/arm64.
One for musl is run elsewhere by a Python that is linked to it, which takes no pip, if COMMAND runs
one: its path, or `qemu-aarch64 -L FOLDER PATH` for ARM. Others are named and left out. It is an
error if no wheel was run.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS = 30
# Run where a wheel is installed: prints its first example, what that prints, and seconds.
EXAMPLE = r"""
import contextlib, importlib.metadata, io, json, re, time
text = importlib.metadata.metadata("sudare")["Description"]
code = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
printed, start = io.StringIO(), time.perf_counter()
with contextlib.redirect_stdout(printed):
    exec(code, {})
print(json.dumps([code, printed.getvalue(), time.perf_counter() - start]))
"""
# What there has to be of the page.
PAGE = {"index.html", "worker.js", "sudare_web_bg.wasm"}
# A system with a Python for ARM: Debian's, which is unpacked and not set up.
ARM = ROOT / "target/arm64"
DEBIAN = "bookworm"
# The second is for NumPy.
ARM_PACKAGES = "python3,libstdc++6"
# Newest first: what NumPy's wheels for that system are made for.
ARM_PLATFORMS = ["manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64"]


class Unsupported(Exception):
    """A wheel is for another machine, and says for which."""


def output(command, **options):
    """What a command prints; if it fails, all ends with what it said."""
    run = subprocess.run(command, capture_output=True, text=True, **options)
    if "is not a supported wheel on this platform" in run.stderr:
        raise Unsupported("it is for another system or processor")
    if run.returncode:
        sys.exit(f"{command[0]} ends with {run.returncode}:\n{run.stdout}{run.stderr}")
    return run.stdout


def make_environment(folder):
    """Makes a virtual environment and returns its Python."""
    venv.create(folder, with_pip=True)
    return str(folder / ("Scripts" if sys.platform == "win32" else "bin") / "python")


def install(python, wheel, options=()):
    """Installs a wheel and what it needs, nothing of which is compiled."""
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    output([*pip, "--only-binary=:all:", *options, wheel])


def install_beside(command, python, wheel, platforms, folder):
    """Installs a wheel into a folder for the Python of a command, and has that find it there."""
    version = output([*command, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    options = [f"--target={folder}", f"--python-version={version.strip()}"]
    install(python, wheel, [*options, *(f"--platform={name}" for name in platforms)])
    return {**os.environ, "PYTHONPATH": str(folder)}


def python_for_arm():
    """The command that runs a Python for ARM with glibc."""
    if missing := [tool for tool in ("qemu-aarch64", "mmdebstrap") if not shutil.which(tool)]:
        raise Unsupported(f"{' and '.join(missing)} would run it")
    if not ARM.exists():
        # It gets its name when it is whole.
        part = ARM.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(exist_ok=True)
        options = ["--variant=extract", "--architectures=arm64", f"--include={ARM_PACKAGES}"]
        output(["mmdebstrap", "--quiet", *options, DEBIAN, part])
        part.rename(ARM)
    return ["qemu-aarch64", "-L", ARM, ARM / "usr/bin/python3"]


def other_python(wheel, musl):
    """The command that runs a Python for a wheel of another system, and what NumPy has for that."""
    if "manylinux" in wheel.name and "aarch64" in wheel.name:
        return python_for_arm(), ARM_PLATFORMS
    if "musllinux" not in wheel.name:
        raise Unsupported("it is for another system or processor")
    platform = wheel.stem.rpartition("-")[2]
    machine = musl and output([*musl, "-c", "import platform; print(platform.machine())"]).strip()
    if not machine or not platform.endswith(machine):
        raise Unsupported("a Python for musl on that processor would run it, which --python names")
    return musl, [platform]


def words(text):
    """The words of a command, in which paths hold from any folder."""
    return [os.path.abspath(word) if os.path.exists(word) else word for word in shlex.split(text)]


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d*", text)]


def export_page(command, folder, variables):
    """Has the command write the page, which gives the bytes of its files."""
    web = [*command, "-m", "sudare", "--json", "web", "--server", "https://server.example"]
    files = json.loads(output([*web, "--export", folder], env=variables))["files"]
    written = {name: (folder / name).stat().st_size for name in files}
    if not PAGE <= written.keys() or any(written[name] != files[name]["bytes"] for name in files):
        sys.exit(f"the page has {written}, and not {files}")
    return sum(written.values())


def check(wheel, musl):
    """Runs the example and exports the page of a wheel, and says how it went; ends all if it fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        python = make_environment(folder / "environment")
        command, variables = [python], None
        try:
            install(python, wheel)
        except Unsupported:
            command, platforms = other_python(wheel, musl)
            variables = install_beside(command, python, wheel, platforms, folder / "beside")
        example = output([*command, "-c", EXAMPLE], cwd=folder, env=variables)
        code, printed, seconds = json.loads(example)
        page = export_page(command, folder / "page", variables)
    emulated = "qemu" in str(command[0])
    expected = re.search(r"# (\[[^]]*\])", code)[1]
    found, shown = numbers(printed), numbers(expected)
    if len(found) != len(shown) or any(abs(a - b) > 1e-3 for a, b in zip(found, shown)):
        sys.exit(f"{wheel.name} prints {printed.strip()} and not {expected}")
    if seconds > SECONDS and not emulated:
        sys.exit(f"{wheel.name} takes {seconds:.1f} s for its example, and not {SECONDS}")
    how = ", by QEMU" if emulated else ""
    print(f"{wheel.name}: {seconds:.1f} s{how}; a page of {page} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", nargs="*", type=pathlib.Path)
    parser.add_argument("--python", metavar="COMMAND", type=words, help="runs wheels for musl")
    chosen = parser.parse_args()
    run = 0
    for wheel in chosen.wheel or sorted((ROOT / "wheels").glob("*.whl")):
        try:
            check(wheel.resolve(), chosen.python)
            run += 1
        except Unsupported as why:
            print(f"{wheel.name}: not run: {why}", flush=True)
    if not run:
        sys.exit("no wheel was run")


if __name__ == "__main__":
    main()
