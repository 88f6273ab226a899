"""Build the site from the notebooks: `python docs/build.py`, and `--serve` to look at it.

Nothing is executed and nothing is fetched: pages show the outputs that the notebooks store. Warnings are errors.
"""
import argparse, functools, http.server, re, shutil, sys, tempfile
from pathlib import Path

from sphinx.cmd.build import build_main

sys.path.insert(0, str(Path(__file__).resolve().parent))
import llms, pages


# What Sphinx and its theme write that a screen reader stumbles over
MENDS = [
    (r'(<button class="btn search-button-field[^>]*?) aria-label="Search"', r"\1"),         # it hid the words on the button
    (r'<summary aria-label="Toggle hidden content">', "<summary>"),
    (r'<div id="pst-primary-sidebar"', '<div id="pst-primary-sidebar" role="navigation" aria-label="Site"'),
    (r"<dl>\n((?:<dd>.*?</dd>\n)+)</dl>(?=\n\n<span class=\"sig-paren\">)", lambda m: re.sub(r"<(/?)dd>", r"<\1span>", f'<span class="sig-params">{m[1]}</span>')),
]


def mend(folder: Path) -> None:
    "Repair the HTML of every page; a repair that finds nothing on any page is out of date."
    files = {p: p.read_text(encoding="utf-8") for p in folder.rglob("*.html")}
    for wrong, right in MENDS:
        done = {p: re.subn(wrong, right, text) for p, text in files.items()}
        if not any(n for _, n in done.values()): raise SystemExit(f"docs/build.py: nothing to mend at {wrong!r}: remove it")
        files = {p: text for p, (text, _) in done.items()}
    for p, text in files.items(): p.write_text(text, encoding="utf-8")


def build(out: Path) -> int:
    "Build into `out`, which is replaced only when the build succeeds; returns Sphinx's exit code."
    with tempfile.TemporaryDirectory(prefix="site-") as folder:
        source, made = Path(folder, "pages"), Path(folder, "html")
        source.mkdir()
        found = pages.write(source)
        code = build_main(["-q", "-W", "--keep-going", "-b", "html", "-c", str(pages.ROOT/"docs"), "-d", f"{folder}/doctrees", str(source), str(made)])
        if code: return code
        mend(made)
        llms.write(found, made)
        (made/".buildinfo").unlink(missing_ok=True)
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    print(f"{len(found)} notebooks in {out}/index.html")
    return 0


def serve(folder: Path, port: int) -> None:
    "Serve the site on this machine alone until interrupted."
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"http://127.0.0.1:{server.server_port}/ (Ctrl-C ends it)", flush=True)
        try: server.serve_forever()
        except KeyboardInterrupt: print()


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", type=Path, default=pages.ROOT/"_docs", help="folder for the site (_docs)")
    p.add_argument("--serve", action="store_true", help="then serve it locally")
    p.add_argument("--port", type=int, default=8000, help="where to serve it (8000)")
    args = p.parse_args()
    code = build(args.out)
    if not code and args.serve: serve(args.out, args.port)
    return code


if __name__ == "__main__": sys.exit(main())
