"""Run each notebook as Colab would: `python tools/colab.py [PATH ...]`, against the built wheel and the newest dependencies.

A fresh environment gets what a notebook's own hidden install cell asks for and no more; the notebook then runs alone, in an empty
folder. README's example and the `rank_bert` command are tried too. The last line is `N passed, N failed`.
"""
import argparse, json, os, re, shlex, signal, subprocess, sys, tempfile, time, venv
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from asked import asked_by_notebook, split
from packages import build
from test import DEFAULTS, NO_CELL, ROOT, name, notebooks

README_INSTALL = re.compile(r'^pip install ("?rank_bert\[.+)$', re.M)
KERNEL = {"ipykernel", "nbclient"}  # what runs the notebooks; Colab has its own
TAIL = 25  # lines of what a failure said
ANSI = re.compile(r"\x1b\[[0-9;]*m")
WHERE = "import pathlib, rank_bert\nassert pathlib.Path(rank_bert.__file__).is_relative_to({!r}), rank_bert.__file__"
EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
try: NotebookClient(nbformat.read(sys.argv[1], 4), kernel_name="python3", timeout=1200).execute()
except Exception as e: sys.exit(f"{type(e).__name__}: {e}")
"""


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("paths", nargs="*", type=Path, default=[ROOT/"nbs"], help="notebooks or folders (all of nbs/)")
    p.add_argument("--some", action="store_true", help="of the notebooks that ask for the same, the smallest only: tools/test.py hides from each what it does not ask for")
    p.add_argument("-j", "--jobs", type=int, default=2, help="notebooks at a time (2)")
    p.add_argument("--venv", type=Path, default=ROOT/".venv-colab", help="the environment, made anew (.venv-colab)")
    p.add_argument("--keep", action="store_true", help="use the environment that is there: quick, but what it holds may hide what a notebook forgot")
    args = p.parse_args()
    args.venv = args.venv.absolute()
    if args.jobs < 1: p.error("--jobs must be 1 or more")
    for path in args.paths:
        if not path.exists(): p.error(f"{path} does not exist")
    made = (args.venv/"pyvenv.cfg").exists()
    if args.keep and not made: p.error(f"--keep: {args.venv} is no environment")
    if args.venv.exists() and not made: p.error(f"{args.venv} is no environment, and is left alone: choose another --venv")
    return args


# What is asked for

def asked_by_readme() -> frozenset[str]:
    "What README tells its reader to install."
    found = README_INSTALL.search((ROOT/"README.md").read_text(encoding="utf-8"))
    if not found: raise SystemExit('README.md has no line `pip install "rank_bert[...]"`')
    return split(found[1])


def example() -> str:
    "The Python blocks of README, as one script."
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT/"README.md").read_text(encoding="utf-8"), re.M | re.S)
    if not blocks: raise SystemExit("README.md has no Python example")
    return "\n".join(blocks)


def groups(paths: list[Path], home: bool, some: bool) -> dict[frozenset[str], list[Path]]:
    "What is asked for, and the notebooks that ask for it, with what README asks for if wanted; smaller sets first."
    found = {asked_by_readme(): []} if home else {}
    for path in paths: found.setdefault(asked_by_notebook(path), []).append(path)
    if some: found = {o: sorted(p, key=lambda path: path.stat().st_size)[:1] for o, p in found.items()}
    return dict(sorted(found.items(), key=lambda o: (len(o[0]), sorted(o[0]))))


def cells_that_run(notebook: Path) -> dict:
    "The notebook without the cells that the tests pass over, as nbdev judges them, and without outputs."
    from nbdev.config import get_config
    from nbdev.test import nb_test_cells
    kept = {c.id for c in nb_test_cells(notebook, get_config(ROOT).tst_flags.split(), [])}
    nb = json.loads(notebook.read_text(encoding="utf-8"))
    nb["cells"] = [{**c, "outputs": [], "execution_count": None} for c in nb["cells"] if c["cell_type"] == "code" and c["id"] in kept]
    if not nb["cells"]: raise SystemExit(f"{name(notebook)}: {NO_CELL}")
    return nb


class Colab:
    "An environment made from the wheel, and the commands that run in it."

    def __init__(self, folder: Path, jobs: int, work: Path):
        self.folder, self.jobs, self.work, self.wheel = folder, jobs, work, build(work/"dist")[0]
        self.python, self.running, self.results = folder/"bin"/"python", set(), []
        self.held = []  # (requirements, names of what was there before them) of the sets that are installed, each holding the one before
        dropped = re.compile(r"PYTHON(PATH|HOME)|VIRTUAL_ENV|RANK_BERT_|JUPYTER_|HF_|MPL")  # what the user's shell holds, Colab does not
        self.env = {**DEFAULTS, **{k: v for k, v in os.environ.items() if not dropped.match(k)}, "HF_HUB_OFFLINE": "1", "IN_TEST": "1",
                    "PATH": f"{self.python.parent}{os.pathsep}{os.environ['PATH']}", "JUPYTER_PREFER_ENV_PATH": "1",
                    "RANK_BERT_HOME": str(work/"home"), "HF_HOME": str(work/"hub"), "IPYTHONDIR": str(work/"ipython")}

    def call(self, command: list, folder: Path|None = None, **env: str) -> tuple[bool, str, float]:
        "Run a command in `folder`, or in an empty one of its own: (did it work, what it printed, seconds)."
        start, folder = time.time(), folder or Path(tempfile.mkdtemp(dir=self.work))
        process = subprocess.Popen([str(o) for o in command], cwd=folder, env=self.env | env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self.running.add(process)
        printed, _ = process.communicate()
        self.running.discard(process)
        return process.returncode == 0, ANSI.sub("", printed).strip(), time.time() - start

    def pip(self, *arguments) -> tuple[bool, str, float]:
        return self.call([self.python, "-m", "pip", *arguments])

    def names(self) -> set[str]:
        "What is installed."
        return {line.split("==")[0] for line in self.pip("list", "--format=freeze")[1].splitlines() if "==" in line}

    def remove_beyond(self, wanted: frozenset[str]) -> None:
        "Uninstall the sets that `wanted` does not hold, down to one that it does."
        while self.held and not self.held[-1][0] <= wanted: self.pip("uninstall", "-q", "-y", *sorted(self.names() - self.held.pop()[1]))
        self.held.append((wanted, self.names()))

    def install(self, wanted: set[str]) -> bool:
        "pip install what is asked for, the newest, with the wheel in the place of rank_bert."
        here = [re.sub(r"^rank_bert(?=$|\[)", str(self.wheel), o) for o in sorted(wanted)]
        done, printed, seconds = self.pip("install", "-U", "-q", *here)
        if done: print(f"== pip install {' '.join(sorted(wanted))} ({seconds:.0f} s)", flush=True)
        else: self.report(f"pip install {' '.join(sorted(wanted))}", done, printed, seconds)
        return done

    def run_notebook(self, notebook: Path) -> tuple[bool, str, float]:
        "Run a notebook alone, and see that the rank_bert it used is the installed one."
        nb, folder = cells_that_run(notebook), Path(tempfile.mkdtemp(dir=self.work))
        last = {"cell_type": "code", "id": "where", "metadata": {}, "outputs": [], "execution_count": None, "source": WHERE.format(str(self.folder))}
        copy = folder.with_suffix(".ipynb")  # beside the folder, which stays empty
        copy.write_text(json.dumps({**nb, "cells": nb["cells"] + [last]}), encoding="utf-8")
        return self.call([self.python, "-c", EXECUTE, copy], folder)

    def run_home(self, script: str) -> None:
        "What a reader of README does first."
        file, command = self.work/"example.py", self.python.with_name("rank_bert")
        file.write_text(f"{script}\n{WHERE.format(str(self.folder))}\n", encoding="utf-8")
        cores = dict(OMP_NUM_THREADS=str(os.cpu_count()))  # nothing else runs, and a reader has all of them
        self.report("README's example", *self.call([self.python, file], **cores))
        self.report("rank_bert --help", *self.call([command, "--help"]))
        self.report("rank_bert demo", *self.call([command, "demo", "--max-documents", 200, "--epochs", 2, "--out", "ranker"], **cores))

    def run_notebooks(self, paths: list[Path]) -> None:
        pool = ThreadPoolExecutor(self.jobs)
        jobs = {pool.submit(self.run_notebook, path): path for path in paths}
        try:
            for job in as_completed(jobs): self.report(name(jobs[job]), *job.result())
        finally: pool.shutdown(wait=False, cancel_futures=True)

    def report(self, what: str, passed: bool, printed: str, seconds: float) -> None:
        self.results.append(passed)
        print(f"{'passed' if passed else 'failed'} {what} ({seconds:.0f} s)", flush=True)
        if not passed: print("\n".join(f"    {o}" for o in printed.splitlines()[-TAIL:]), flush=True)

    def run(self, plan: dict[frozenset[str], list[Path]], script: str) -> None:
        "Everything, in the order of what is asked for; README's `script` where what README asks for is installed."
        # Each set is installed without what only others ask for: else a notebook that forgets to ask for a package would find it.
        for wanted, paths in plan.items():
            self.remove_beyond(wanted)
            if not self.install(wanted): return
            if script and wanted == asked_by_readme(): self.run_home(script)
            if paths and self.install(KERNEL): self.run_notebooks(paths)

    def stop(self) -> None:
        for process in list(self.running): process.terminate()


def main() -> int:
    args = arguments()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    home = args.paths == [ROOT/"nbs"]
    plan, script = groups(notebooks(args.paths), home, args.some), example() if home else ""  # before the long part, what can fail at once
    if not args.keep: venv.create(args.venv, clear=True, symlinks=os.name != "nt", with_pip=True)
    colab = None
    with tempfile.TemporaryDirectory(prefix="rank_bert-", ignore_cleanup_errors=True) as work:
        try:
            colab = Colab(args.venv, args.jobs, Path(work).resolve())
            if args.keep: colab.pip("uninstall", "-q", "-y", "rank_bert")  # pip keeps a wheel of the same version
            colab.run(plan, script)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return 130
        finally:
            if colab: colab.stop()
            results = colab.results if colab else []
            print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if results and all(results) else 1


if __name__ == "__main__": sys.exit(main())
