"""Steps of a release: `python tools/release.py check|build|announce [TAG]`; without TAG, the one that GitHub Actions runs for.

`check` says whether everything agrees with the tag, `build` writes dist/, `announce` makes the release page with the section of
CHANGELOG.md (it needs `gh`, and dist/). All three check first; the last line of the checks is `N passed, N failed`.
"""
import os, re, subprocess, sys
from pathlib import Path

from packages import build, settings

ROOT = Path(__file__).resolve().parent.parent


def read(file: str) -> str: return (ROOT/file).read_text(encoding="utf-8")


def version() -> str: return settings()["version"]


def section() -> tuple[str, str]:
    "What follows the version in its heading in CHANGELOG.md, and the text below; two empty strings when there is none."
    found = re.search(rf"^## {re.escape(version())}\b(?![.\w])(.*)\n((?:(?!## ).*\n?)*)", read("CHANGELOG.md"), re.M)
    return (found[1].strip(), found[2].strip()) if found else ("", "")


def checks(tag: str) -> dict[str, bool]:
    "What must hold, with the remedy, and whether it does."
    heading, notes = section()
    return {f"the tag {tag!r} is v{version()}, after settings.ini: delete the tag, or change the version": tag == f"v{version()}",
            f"CHANGELOG.md has text under `## {version()}`": bool(notes),
            "CHANGELOG.md does not say `unreleased` there: write the date": "unreleased" not in heading.lower(),
            f"CITATION.cff says `version: {version()}`": re.search(r"^version: (.+)$", read("CITATION.cff"), re.M)[1] == version()}


def agrees(tag: str) -> bool:
    results = checks(tag)
    for what, holds in results.items(): print(f"{'ok' if holds else 'FAIL'} {what}")
    print(f"{sum(results.values())} passed, {len(results) - sum(results.values())} failed", flush=True)
    return all(results.values())


def announce(tag: str) -> int:
    "Make the release page on GitHub."
    files = sorted(str(p) for p in (ROOT/"dist").glob("*"))
    if not files: sys.exit("dist/ is empty: `python tools/release.py build`")
    command = ["gh", "release", "create", tag, "--verify-tag", "--title", tag, "--notes-file", "-", *files]
    return subprocess.run(command, input=section()[1], text=True, cwd=ROOT).returncode


def main(arguments: list[str]) -> int:
    step, tag = (*arguments, os.environ.get("GITHUB_REF_NAME", ""))[:2] if arguments else ("", "")
    if step not in ("check", "build", "announce") or not tag or len(arguments) > 2: sys.exit(__doc__.splitlines()[0])
    if not agrees(tag): return 1
    if step == "build": print(*(p.name for p in build(ROOT/"dist")))
    return announce(tag) if step == "announce" else 0


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
