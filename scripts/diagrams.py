#!/usr/bin/env python3
"""Draws diagrams of the documentation into docs/img.

python scripts/diagrams.py           # writes the files
python scripts/diagrams.py --check   # exits with 1 if a file differs
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs" / "img"
# The colours of all images in docs/img, by day and by night.
STYLE = """text{font:13px system-ui,sans-serif;fill:#263238;text-anchor:middle}
.l{text-anchor:start}.r{text-anchor:end}.s{font-size:11px;fill:#546e7a}.h{font-weight:600}
.a{fill:#b2dfdb;stroke:#00796b}.b{fill:#ffe0b2;stroke:#ef6c00}.c{fill:#eceff1;stroke:#78909c}
.d{fill:none;stroke:#78909c;stroke-dasharray:4 3}
.w{fill:none;stroke:#546e7a;stroke-width:1.5}.e{fill:#546e7a;stroke:none}
@media (prefers-color-scheme:dark){text{fill:#eceff1}.s{fill:#b0bec5}.a{fill:#00574b;stroke:#4db6ac}
.b{fill:#7a4100;stroke:#ffb74d}.c{fill:#37474f;stroke:#90a4ae}.w{stroke:#b0bec5}.e{fill:#b0bec5}}"""
# Length and half the width of the head of an arrow.
HEAD, WING = 8, 4


class Drawing:
    """An SVG image under construction. Coordinates are pixels from the top left."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{STYLE}\n</style>",
        ]

    def text(self, x: int, y: int, text: str, style: str = "") -> None:
        kind = f' class="{style}"' if style else ""
        self.parts.append(f'<text x="{x}" y="{y}"{kind}>{escape(text)}</text>')

    def box(self, x: int, y: int, width: int, height: int, style: str, *lines: str) -> None:
        """Draws a box with centred lines of text, the second and later ones small."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" class="{style}"/>'
        )
        top = y + height // 2 + 5 - 8 * (len(lines) - 1)
        for number, line in enumerate(lines):
            self.text(x + width // 2, top + 16 * number, line, "s" if number else "")

    def arrow(self, x: int, y: int, to_x: int, to_y: int, text: str = "") -> None:
        """Draws a horizontal or vertical arrow, with its text above or to the right."""
        step_x, step_y = (to_x > x) - (to_x < x), (to_y > y) - (to_y < y)
        neck_x, neck_y = to_x - HEAD * step_x, to_y - HEAD * step_y
        self.parts.append(
            f'<path class="w" d="M{x} {y}L{neck_x} {neck_y}"/><path class="e" d="M{to_x} {to_y}'
            f"L{neck_x + WING * step_y} {neck_y + WING * step_x}"
            f'L{neck_x - WING * step_y} {neck_y - WING * step_x}Z"/>'
        )
        if text and step_x:
            self.text((x + to_x) // 2, y - 6, text, "s")
        elif text:
            self.text(x + 8, (y + to_y) // 2 + 4, text, "l s")

    def finish(self) -> str:
        return "\n".join([*self.parts, "</svg>", ""])


def roles() -> str:
    """Shows the owner's and the server's commands, and the files between them."""
    image = Drawing(600, 330, "Owner and server exchange a key, a table and a model, all encrypted")
    image.text(105, 22, "owner", "h")
    image.text(495, 22, "server", "h")
    image.box(10, 32, 190, 222, "c")
    image.box(400, 32, 190, 222, "c")
    image.box(30, 46, 150, 42, "b", "keygen", "makes all keys")
    image.box(30, 121, 150, 42, "b", "encrypt", "with public.key")
    image.box(30, 196, 150, 42, "b", "decrypt", "with secret.key")
    image.box(420, 46, 150, 192, "a", "train, stats, predict", "with evaluation.key", "no secret key")
    image.arrow(180, 67, 420, 67, "evaluation.key, once for each job")
    image.arrow(180, 142, 420, 142, "table.ct")
    image.arrow(420, 217, 180, 217, "model.ct")
    image.box(205, 276, 190, 42, "c", "anyone", "info, params, released results")
    image.parts.append('<path class="w" d="M105 238L105 297L197 297"/>')
    image.parts.append('<path class="e" d="M205 297L197 293L197 301Z"/>')
    image.text(112, 291, "--share", "l s")
    return image.finish()


# Stages of `n16-boot` as `sudare params n16-boot` lists them: name, first and last level, form.
STAGES = [
    ("correction", 5, 3, "slots"),
    ("SlotsToCoeffs", 3, 0, "slots"),
    ("raise", 0, 31, "coefficients"),
    ("CoeffsToSlots", 31, 27, "coefficients"),
    ("EvalMod", 27, 19, "slots"),
    ("levels to use", 19, 5, "slots"),
]


def stages() -> str:
    """Shows the level of a ciphertext over the stages of a bootstrapping."""
    image = Drawing(600, 300, "The stages of a bootstrapping of n16-boot, and the level after each")
    left, bottom, unit, width = 46, 250, 7, 90

    def height(level: int) -> int:
        return bottom - unit * level

    image.text(10, 22, "level", "l h")
    for level in sorted({last for _, _, last, _ in STAGES}):
        y = height(level)
        image.parts.append(f'<path class="d" d="M{left} {y}H590"/>')
        image.text(left - 6, y + 4, str(level), "r s")
    for number, (name, first, last, form) in enumerate(STAGES):
        x = left + 4 + width * number
        high, low = max(first, last), min(first, last)
        style = "b" if first < last else "c" if name == "levels to use" else "a"
        image.box(x + 22, height(high), width - 44, unit * (high - low), style)
        image.arrow(x + width // 2, height(first), x + width // 2, height(last))
        image.text(x + width // 2, bottom + 22, name)
        image.text(x + width // 2, bottom + 38, form, "s")
    return image.finish()


def service() -> str:
    """Shows the machines of a service and their connections."""
    image = Drawing(600, 250, "Clients reach servers through TLS; servers share records and objects")
    image.text(75, 32, "tenants", "h")
    image.text(385, 22, "the operator's machines", "h")
    image.box(10, 44, 130, 70, "b", "client", "sudare remote", "secret key stays here")
    image.box(10, 124, 130, 70, "b", "browser page", "sudare web", "secret key stays here")
    image.box(190, 32, 400, 204, "d")
    image.box(202, 84, 92, 70, "c", "proxy", "or the server's", "own TLS")
    image.box(325, 84, 110, 70, "a", "server", "sudare serve", "one or several")
    image.box(475, 44, 105, 50, "c", "database", "PostgreSQL or file")
    image.box(475, 106, 105, 50, "c", "objects", "store or directory")
    image.box(325, 182, 110, 44, "a", "workers", "sudare work")
    image.arrow(140, 102, 202, 102, "TLS")
    image.arrow(140, 140, 202, 140, "TLS")
    image.arrow(294, 119, 325, 119)
    image.arrow(435, 90, 475, 90)
    image.arrow(435, 131, 475, 131)
    image.arrow(380, 182, 380, 154, "claim jobs")
    return image.finish()


DRAWINGS = {"roles.svg": roles, "stages.svg": stages, "service.svg": service}


def main() -> int:
    differ = False
    for name, draw in DRAWINGS.items():
        path, text = IMAGES / name, draw()
        if "--check" not in sys.argv[1:]:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} differs: run scripts/diagrams.py")
            differ = True
    return int(differ)


if __name__ == "__main__":
    sys.exit(main())
