"""What a notebook asks Colab to install, and a Python that finds no more than that."""
import json, re, shlex, sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

INSTALL = re.compile(r"^\s*! ?\[ -e /content \] && pip install (.+)$", re.M)
TESTING = frozenset({"nbdev", "ipykernel", "nbclient", "pip", "setuptools"})  # what runs notebooks; Colab has its own


def split(line: str) -> frozenset[str]:
    "The requirements in the arguments of a `pip install`, one for each extra: `a[b,c]` is `a[b]` and `a[c]`."
    asked = [Requirement(o) for o in shlex.split(line, comments=True) if not o.startswith("-")]
    return frozenset(f"{o.name}{extra}{o.specifier}" for o in asked for extra in [f"[{e}]" for e in o.extras] or [""])


def asked_by_notebook(notebook: Path) -> frozenset[str]:
    "What a notebook's own install cell asks for."
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    found = [split(m[1]) for c in cells for m in INSTALL.finditer("".join(c["source"]))]
    if len(found) != 1: raise SystemExit(f"{notebook.name} has {len(found)} install cells for Colab, not one")
    return found[0]


@cache
def needs_of(name: str) -> list[Requirement]:
    "What a package requires; nothing if it is not installed: it is of another system, or not wanted here."
    try: return [Requirement(o) for o in distribution(name).requires or []]
    except PackageNotFoundError: return []


@cache
def brought(wanted: frozenset[str]) -> frozenset[str]:
    "Names of the installed packages that requirements bring, theirs too."
    todo, seen = [Requirement(o) for o in wanted], set()
    while todo:
        one = todo.pop()
        for extra in {"", *one.extras}:
            if (key := (canonicalize_name(one.name), extra)) in seen: continue
            seen.add(key)
            todo += [o for o in needs_of(one.name) if o.marker is None or o.marker.evaluate({"extra": extra})]
    return frozenset(name for name, _ in seen)


def seen_by_notebook(notebook: Path) -> frozenset[str]:
    "Names of the packages that a notebook's install cell brings, and of what the tests bring."
    return brought(asked_by_notebook(notebook) | TESTING)


class Only(PathFinder):
    "Finds modules and packages as Python does, but none of those that are hidden."
    hidden = frozenset()  # names of modules
    absent = frozenset()  # names of packages

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return None if fullname.partition(".")[0] in cls.hidden else super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *args, **kwargs):
        return (o for o in super().find_distributions(*args, **kwargs) if canonicalize_name(o.name) not in cls.absent)


@cache
def owners() -> dict[str, set[str]]:
    "The installed packages that each module is of; a second to find, so a process that forks asks before."
    return {m: {canonicalize_name(o) for o in found} for m, found in packages_distributions().items()}


def see_only(there: frozenset[str]) -> None:
    "Hide all packages but these: what a notebook forgets to ask for is missing here too."
    found_in = owners()
    Only.hidden = frozenset(m for m, found in found_in.items() if not found & there)
    Only.absent = frozenset(set().union(*found_in.values()) - there)
    sys.meta_path[:] = [Only if finder is PathFinder else finder for finder in sys.meta_path]
