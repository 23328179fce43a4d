"""Slots that programs print after each operation, as lines of JSON with `op` and `slots`."""

import json
import subprocess

from programs import ROOT, BuildFailed, last_line


def parse(text: str) -> dict[str, list]:
    """Returns slots by operation."""
    lines = map(json.loads, filter(str.strip, text.splitlines()))
    return {line["op"]: line["slots"] for line in lines}


def of_program(command: list[str]) -> dict[str, list]:
    """Returns the output of a program. Raises BuildFailed if it ends with an error."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildFailed(f"{command[0]}: {last_line(done.stderr)}")
    return parse(done.stdout)


def of_example(name: str) -> dict[str, list]:
    """Returns the output of an example of sudare."""
    cargo = ["cargo", "run", "--quiet", "--locked", "--profile", "dev", "--package", "sudare"]
    return of_program([*cargo, "--example", name])
