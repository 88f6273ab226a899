"""Wheel, sdist and release page: `python tools/release.py build` writes dist/, `announce` needs it, `gh` and a tag.

What must hold before: `python tools/check.py metadata wheel`, which asks about the tag too where GitHub runs for one.
"""
import configparser, os, re, shutil, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNWANTED = shutil.ignore_patterns(".git", ".venv*", "*.egg-info", "__pycache__", "build", "dist", "_docs", "node_*")


def settings() -> configparser.SectionProxy:
    "The package's metadata, which settings.ini holds."
    parser = configparser.ConfigParser(delimiters=["="], interpolation=None)
    parser.read(ROOT/"settings.ini", encoding="utf-8")
    return parser["DEFAULT"]


def build(folder: Path) -> list[Path]:
    "The files that `python -m build` wrote to `folder`, wheel first; built from a copy, so that the tree stays clean."
    with tempfile.TemporaryDirectory() as temporary:
        tree = shutil.copytree(ROOT, Path(temporary, "tree"), ignore=UNWANTED)
        # `build` makes the wheel from the sdist: the sdist builds again; a release uses the pinned tools that are there
        here = ["--no-isolation"] if os.environ.get("RANK_BERT_BUILD_HERE") else ["--installer=uv"]
        command = [sys.executable, "-m", "build", *here, "-o", folder, tree]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode: raise RuntimeError("`python -m build` failed:\n" + (done.stdout + done.stderr)[-2000:])
    return [next(Path(folder).glob(pattern)) for pattern in ("*.whl", "*.tar.gz")]


def section(version: str) -> tuple[str, str]:
    "What follows a version in its heading in CHANGELOG.md, and the text below; two empty strings when there is none."
    text = (ROOT/"CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(version)}\b(?![.\w])(.*)\n((?:(?!## ).*\n?)*)", text, re.M)
    return (found[1].strip(), found[2].strip()) if found else ("", "")


def announce(tag: str) -> int:
    "Make the release page on GitHub, with the section of CHANGELOG.md."
    files = sorted(str(p) for p in (ROOT/"dist").glob("*"))
    if not files: sys.exit("dist/ is empty: `python tools/release.py build`")
    command = ["gh", "release", "create", tag, "--verify-tag", "--title", tag, "--notes-file", "-", *files]
    return subprocess.run(command, input=section(tag.removeprefix("v"))[1], text=True, cwd=ROOT).returncode


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["build"]: print(*(p.name for p in build(ROOT/"dist")))
        case ["announce"]: sys.exit(announce(os.environ["GITHUB_REF_NAME"]))
        case _: sys.exit(__doc__.splitlines()[0])
