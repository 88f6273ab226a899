"""The tests on other Pythons: `python tools/pythons.py [VERSION ...]`, 3.12 and 3.13 by default, with `--paths` for some notebooks only.

For each version a fresh environment gets the package with its extras; in it run the notebooks (outputs are compared on one Python only, named in
pyproject.toml) and `tools/faults.py --quick`. The interpreter is `python3.12` on PATH or one that pyenv has. An environment takes 6.5 GB.
The last line is `N passed, N failed`.
"""
import argparse, os, re, shutil, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("versions", nargs="*", default=["3.12", "3.13"], help="Python versions (3.12 3.13)")
    p.add_argument("--paths", nargs="*", default=[], help="notebooks or folders (all of nbs/)")
    p.add_argument("--venv", type=Path, default=ROOT/".venv-python", help="environments, the version after it (.venv-python)")
    p.add_argument("--keep", action="store_true", help="use environments that are there")
    p.add_argument("-j", "--jobs", type=int, default=2, help="notebooks, and cases, at a time (2)")
    return p.parse_args()


def interpreter(version: str) -> str|None:
    "A Python of that version that starts."
    pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home()/".pyenv"), "versions").glob(f"{version}.*/bin/python"))
    for found in (shutil.which(f"python{version}"), *map(str, pyenv)):
        if found and subprocess.run([found, "-c", ""], capture_output=True).returncode == 0: return found


def environment(version: str, folder: Path, keep: bool) -> Path|None:
    "The Python of an environment that holds the package and its extras; says why there is none."
    if keep and (folder/"pyvenv.cfg").exists(): return folder/"bin"/"python"
    if not (found := interpreter(version)): return print(f"failed {version}: there is no python{version} on PATH, nor in pyenv")
    if folder.exists() and not (folder/"pyvenv.cfg").exists(): return print(f"failed {version}: {folder} is no environment, and is left alone")
    shutil.rmtree(folder, ignore_errors=True)
    for command in ([found, "-m", "venv", folder], [folder/"bin"/"pip", "install", "-q", "-e", f"{ROOT}[dev]"]):
        if subprocess.run(command, cwd=ROOT).returncode: return print(f"failed {version}: {' '.join(map(str, command))}")
    return folder/"bin"/"python"


def counted(command: list) -> tuple[int, int]:
    "Run one of our tools, and show it; what passed and what failed, from its last line."
    process = subprocess.Popen([str(o) for o in command], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    last = ""
    for last in process.stdout: print(last, end="", flush=True)
    found = re.fullmatch(r"(\d+) passed, (\d+) failed", last.strip())
    passed, failed = map(int, found.groups()) if found else (0, 1)
    return passed, failed + (process.wait() != 0 and not failed)


def main() -> int:
    args, passed, failed = arguments(), 0, 0
    for version in args.versions:
        python = environment(version, args.venv.with_name(f"{args.venv.name}-{version}"), args.keep)
        if python is None: failed += 1
        else:
            for command in ([python, "tools/test.py", "-j", args.jobs, *args.paths], [python, "tools/faults.py", "--quick", "-j", args.jobs]):
                print(f"== Python {version}: {' '.join(map(str, command[1:]))}", flush=True)
                p, f = counted(command)
                passed, failed = passed + p, failed + f
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or not passed)


if __name__ == "__main__": sys.exit(main())
