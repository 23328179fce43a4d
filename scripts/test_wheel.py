#!/usr/bin/env python3
"""Installs wheels without Rust and compiler, and runs the first example of each.

    python3 scripts/test_wheel.py [--python COMMAND] [WHEEL…]

Tests the named wheels, or all in wheels/. The example comes from the wheel's own description, python/README.md, and
must print the result in its comment within SECONDS. Then the command of the wheel exports the owner's page. A wheel
for this machine gets a virtual environment. Elsewhere QEMU runs a wheel for ARM with glibc, without a time limit:
Debian's qemu-user and mmdebstrap put a Python for ARM into target/arm64. A wheel for musl runs elsewhere if COMMAND
runs a Python that is linked to musl: its path, or `qemu-aarch64 -L DIRECTORY PATH` for ARM. It needs no pip. Other
wheels are named and left out. If no wheel runs, that is an error.
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
# Runs next to an installed wheel. Prints its first example, the output of the example, and seconds.
EXAMPLE = r"""
import contextlib, importlib.metadata, io, json, re, time
text = importlib.metadata.metadata("sudare")["Description"]
code = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
printed, start = io.StringIO(), time.perf_counter()
with contextlib.redirect_stdout(printed):
    exec(code, {})
print(json.dumps([code, printed.getvalue(), time.perf_counter() - start]))
"""
# Required files of the page.
PAGE = {"index.html", "worker.js", "sudare_web_bg.wasm"}
# A system with a Python for ARM: Debian's, unpacked but not configured.
ARM = ROOT / "target/arm64"
DEBIAN = "bookworm"
# The second is for NumPy.
ARM_PACKAGES = "python3,libstdc++6"
# Platforms of NumPy's wheels for that system, newest first.
ARM_PLATFORMS = ["manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64"]


class Unsupported(Exception):
    """A wheel is for another machine, which the message names."""


def output(command, **options):
    """Returns the output of a command. If it fails, ends the program with its output."""
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
    """Installs a wheel and its dependencies, without compiling."""
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    output([*pip, "--only-binary=:all:", *options, wheel])


def install_beside(command, python, wheel, platforms, folder):
    """Installs a wheel into a directory that the Python of a command searches."""
    version = output([*command, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
    options = [f"--target={folder}", f"--python-version={version.strip()}"]
    install(python, wheel, [*options, *(f"--platform={name}" for name in platforms)])
    return {**os.environ, "PYTHONPATH": str(folder)}


def python_for_arm():
    """Returns the command that runs a Python for ARM with glibc."""
    if missing := [tool for tool in ("qemu-aarch64", "mmdebstrap") if not shutil.which(tool)]:
        raise Unsupported(f"{' and '.join(missing)} would run it")
    if not ARM.exists():
        # The directory gets its name when it is complete.
        part = ARM.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(exist_ok=True)
        options = ["--variant=extract", "--architectures=arm64", f"--include={ARM_PACKAGES}"]
        output(["mmdebstrap", "--quiet", *options, DEBIAN, part])
        part.rename(ARM)
    return ["qemu-aarch64", "-L", ARM, ARM / "usr/bin/python3"]


def other_python(wheel, musl):
    """Returns the command of a Python for another system's wheel, and the platform of NumPy's wheels for it."""
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
    """Splits a command into words, with absolute paths."""
    return [os.path.abspath(word) if os.path.exists(word) else word for word in shlex.split(text)]


def numbers(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d*", text)]


def export_page(command, folder, variables):
    """Exports the page, and returns the bytes of its files."""
    web = [*command, "-m", "sudare", "--json", "web", "--server", "https://server.example"]
    files = json.loads(output([*web, "--export", folder], env=variables))["files"]
    written = {name: (folder / name).stat().st_size for name in files}
    if not PAGE <= written.keys() or any(written[name] != files[name]["bytes"] for name in files):
        sys.exit(f"the page has {written}, and not {files}")
    return sum(written.values())


def check(wheel, musl):
    """Runs the example of a wheel, exports its page, and reports the result. Ends the program on failure."""
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
