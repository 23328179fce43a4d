"""Makes a site of documents that also read well where they lie in the repository.

Pages keep the paths that they have from the root, so that their links to each other, inside `docs`
and out of it, hold in both places. The help of all commands becomes a page, so that the search finds
commands and options. A built site that would load anything from another host is an error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.nav import Navigation

ROOT = Path(__file__).parents[1]

# Pages from outside `docs`, and where they are in the site.
OUTSIDE = {
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
    "benches/peers/README.md": "comparing",
    "cli/examples/README.md": "examples/shell",
    "crates/apps/examples/README.md": "examples/rust-applications",
    "crates/sudare/examples/README.md": "examples/rust",
    "python/examples/README.md": "examples/python",
    "python/README.md": "python",
}

# The help of all commands, which a test compares with what the program prints, and its page.
HELP = ROOT / "cli/tests/data/help.txt"
COMMANDS = "commands.md"

# The page that lists all pages, and the largest number of pages in the navigation.
ALL_PAGES = "docs/pages.md"
MAX_ENTRIES = 20
LINK = re.compile(r"\]\(([^)#\s]+\.md)")

# What a browser fetches without being asked: in tags, and in style sheets.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|audio|video|embed|object)\b[^>]*?\b(?:src|data|srcset)=["']?([^"'\s>]+)"""
    r"""|<link\b(?![^>]*\brel=["']?(?:canonical|next|prev|alternate))[^>]*?\bhref=["']?([^"'\s>]+)"""
    r"""|url\(\s*["']?([^"')]+)|@import\s+["']([^"']+)""",
    re.IGNORECASE,
)
ELSEWHERE = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Names pages by their paths from the root, and adds those from outside `docs`."""

    def page(path: str, place: str, inclusion: InclusionLevel) -> File:
        options = {"dest_uri": place, "inclusion": inclusion}
        return File(path, str(ROOT), config.site_dir, config.use_directory_urls, **options)

    folder = Path(config.docs_dir)
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
            path = (folder / file.src_uri).relative_to(ROOT).as_posix()
            files.append(page(path, file.dest_uri, file.inclusion))
    for path, place in OUTSIDE.items():
        files.append(page(path, f"{place}/index.html", InclusionLevel.NOT_IN_NAV))
    files.append(File.generated(config, COMMANDS, content=commands(HELP.read_text(encoding="utf-8"))))
    return files


def commands(text: str) -> str:
    """Returns a page with a heading for each command of the help."""
    parts = re.split(r"^\$ (sudare.*)$", text, flags=re.MULTILINE)[1:]
    page = [
        "# Commands\n\nThis page is for users of the shell. You find the help of each command, as "
        "`sudare COMMAND --help` prints it.\n"
    ]
    for name, shown in zip(parts[::2], parts[1::2], strict=True):
        level = "###" if name.count(" ") > 1 else "##"
        page.append(f"{level} {name}\n\n```text\n{shown.strip()}\n```\n")
    return "\n".join(page)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> None:
    """Refuses a long navigation, and pages that neither it nor the list of pages names."""
    in_nav = {page.file.src_uri for page in nav.pages}
    if len(in_nav) > MAX_ENTRIES:
        raise PluginError(f"the navigation has {len(in_nav)} entries: list some in {ALL_PAGES} instead")
    found = LINK.findall((ROOT / ALL_PAGES).read_text(encoding="utf-8"))
    folder = (ROOT / ALL_PAGES).parent
    listed = {(folder / link).resolve().relative_to(ROOT).as_posix() for link in found}
    lost = {file.src_uri for file in files.documentation_pages()} - in_nav - listed
    if lost:
        raise PluginError(f"{ALL_PAGES} lacks {', '.join(sorted(lost))}")


# A part of the navigation and its title. The theme leaves its label empty if the part has a page of its own.
PART = re.compile(
    r"""aria-labelledby="(__nav_[0-9_]+)_label"([^>]*>\s*<label class="md-nav__title" for="\1">"""
    r"""\s*<span[^>]*></span>\s*)([^<]+?)(\s*</label>)"""
)

# A corner of a table, which heads nothing.
EMPTY_HEAD = re.compile(r"<th\b([^>]*)></th>")


def on_post_page(output: str, **_: object) -> str:
    """Completes pages for screen readers: names of the search and of the navigation, and corners of tables."""
    output = output.replace('role="dialog">', 'role="dialog" aria-label="Search">')
    output = EMPTY_HEAD.sub(r"<td\1></td>", output)
    return PART.sub(r'aria-label="\3"\2\3\4', output)


def on_post_build(config: MkDocsConfig) -> None:
    """Refuses a site that loads anything from another host."""
    site = Path(config.site_dir)
    foreign = {
        f"{path.relative_to(site)} loads {target}"
        for path in site.rglob("*")
        if path.suffix in (".html", ".css", ".svg")
        for found in LOADED.findall(path.read_text(encoding="utf-8"))
        for target in found
        if ELSEWHERE.match(target)
    }
    if foreign:
        raise PluginError("the site is not self-contained: " + "; ".join(sorted(foreign)))
