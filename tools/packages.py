"""The package's metadata, and its wheel and sdist, built from a copy of the tree so that nothing of a build is left in it."""
import configparser, os, shutil, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UNWANTED = shutil.ignore_patterns(".git", ".venv*", "*.egg-info", "__pycache__", "build", "dist", "_*docs", "_proc", "shared", "node_modules")


def settings() -> configparser.SectionProxy:
    "The package's metadata, which settings.ini holds."
    parser = configparser.ConfigParser(delimiters=["="], interpolation=None)
    parser.read(ROOT/"settings.ini", encoding="utf-8")
    return parser["DEFAULT"]


def build(folder: Path) -> list[Path]:
    "The files that `python -m build` wrote to `folder`, wheel first; RuntimeError with the end of what it said if it failed."
    with tempfile.TemporaryDirectory() as temporary:
        tree = shutil.copytree(ROOT, Path(temporary, "tree"), ignore=UNWANTED)
        # `build` makes the wheel from the sdist: the sdist builds again; a release uses the tools that are there, pinned
        here = ["--no-isolation"] if os.environ.get("RANK_BERT_BUILD_HERE") else []
        done = subprocess.run([sys.executable, "-m", "build", *here, "-o", folder, tree], capture_output=True, text=True)
    if done.returncode: raise RuntimeError("`python -m build` failed:\n" + (done.stdout + done.stderr)[-2000:])
    return [next(Path(folder).glob(pattern)) for pattern in ("*.whl", "*.tar.gz")]
