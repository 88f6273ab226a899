"""Build the site from the notebooks into _docs/: `python docs/build.py`; `python -m http.server -d _docs` serves it.

Nothing is executed and nothing is fetched: pages show the outputs that the notebooks store. Warnings are errors.
"""
import re, shutil, sys, tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

sys.path.insert(0, str(Path(__file__).resolve().parent))
import llms, pages


def signature(found: re.Match) -> str:
    "The lines of a long signature as spans: a list without terms is no list."
    return '<span class="sig-params">' + re.sub(r"<(/?)dd>", r"<\1span>", found[1]) + "</span>"


# What Sphinx and its theme write that a screen reader stumbles over
MENDS = [
    (r'(<button class="btn search-button-field[^>]*?) aria-label="Search"', r"\1"),  # it hid the words on the button
    (r'<summary aria-label="Toggle hidden content">', "<summary>"),
    (r'<div id="pst-primary-sidebar"', '<div id="pst-primary-sidebar" role="navigation" aria-label="Site"'),
    (r"<dl>\n((?:<dd>.*?</dd>\n)+)</dl>(?=\n\n<span class=\"sig-paren\">)", signature),
]


def mend(folder: Path) -> None:
    "Repair the HTML of every page; a repair that finds nothing on any page is out of date."
    found = set()
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for wrong, right in MENDS:
            text, times = re.subn(wrong, right, text)
            if times: found.add(wrong)
        path.write_text(text, encoding="utf-8")
    for wrong, _ in MENDS:
        if wrong not in found: raise SystemExit(f"docs/build.py: nothing to mend at {wrong!r}: remove it")


def redirect(found: list[pages.Page], made: Path) -> None:
    "Where a page stood before there were folders, a page that leads to it."
    old = {p.stem: p.name for p in found if p.folder in pages.FOLDERS and p.folder} | pages.MOVED
    for stem, name in old.items():
        place, url = made/f"{stem}.html", f"{pages.SITE}{name}.html"
        if place.exists(): raise SystemExit(f"{place.name} is a page: it cannot lead to {name}")
        if not (made/f"{name}.html").exists(): raise SystemExit(f"MOVED of docs/pages.py: no page {name}")
        place.write_text(f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{stem} has moved</title>'
                         f'<link rel="canonical" href="{url}"><meta http-equiv="refresh" content="0; url={name}.html">'
                         f'</head><body><p>This page is now <a href="{name}.html">{name}</a>.</p></body></html>\n',
                         encoding="utf-8")


def main(out: Path) -> int:
    "Build into `out`, which is replaced only when the build succeeds; returns Sphinx's exit code."
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        source, made = Path(folder, "pages"), Path(folder, "html")
        source.mkdir()
        found, here = pages.write(source), str(pages.ROOT/"docs")
        code = build_main(["-qW", "--keep-going", "-c", here, "-d", f"{folder}/doctrees", str(source), str(made)])
        if code: return code
        mend(made)
        redirect(found, made)
        llms.write(found, made)
        (made/".buildinfo").unlink(missing_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    print(f"{len(found)} notebooks in {out}/index.html")
    return 0


if __name__ == "__main__": sys.exit(main(pages.ROOT/"_docs"))
