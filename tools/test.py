"""Run the notebooks as tests, each in a process of its own: `python tools/test.py [PATH ...]`.

A notebook passes when every cell ran without an error and at least one did run. The processes are forked from one that has imported
what all of them need. At the end stand the cells that took longest. The last line is `N passed, N failed`.
"""
import argparse, os, platform, re, signal, sys, tempfile, time, tomllib, traceback, warnings
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
TOOLS = str(ROOT/"tools")
sys.path[:] = [p for p in sys.path if p != TOOLS] + [TOOLS]  # last, where its names hide nobody else's
import asked, stored

DEFAULTS = {"HF_HUB_OFFLINE": "1",    # no test may need the network
            "OMP_NUM_THREADS": "1",   # the same sums on every machine
            "SOURCE_DATE_EPOCH": "315619200", "MATPLOTLIBRC": str(ROOT/"tools"/"matplotlibrc"),  # the same pictures each time
            "PYTHONWARNINGS": "ignore::FutureWarning"}  # of libraries to their developers; they name paths of the machine
SHARED = ("torch", "torch._dynamo", "scipy.stats", "sklearn.model_selection", "pandas", "matplotlib.pyplot")  # set no options, and do not look for packages of extras
SLOW = re.compile(r"^\S+\.ipynb:(\S+): ([\d.]+)s$", re.M)  # as nbdev says it
NO_CELL = "no code cell ran: drop `skip_exec`, `eval: false` or the slow flag from at least one"


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("paths", nargs="*", type=Path, default=[ROOT/"nbs"], help="notebooks or folders (all of nbs/)")
    p.add_argument("-j", "--jobs", type=int, default=2, help="notebooks at a time (2)")
    p.add_argument("--flags", default="", help="flags whose cells run too, as in --flags slow")
    p.add_argument("--save", action="store_true", help="store the outputs of notebooks that pass, then clean them")
    p.add_argument("--fresh", action=argparse.BooleanOptionalAction,
                   help="fail where stored outputs differ from what the cells give now (the default where CI is set)")
    p.add_argument("--durations", type=int, default=10, metavar="N", help="show the N slowest cells (10)")
    args = p.parse_args()
    if args.save and args.fresh: p.error("--save writes the outputs that --fresh compares: choose one")
    if args.fresh is None: args.fresh = not args.save and os.environ.get("CI", "").lower() not in ("", "0", "false")
    if args.jobs < 1: p.error("--jobs must be 1 or more")
    for path in args.paths:
        if not path.exists(): p.error(f"{path} does not exist")
    return args


def notebooks(paths: list[Path]) -> list[Path]:
    "The notebooks at `paths`, largest file first: a rough guess at the longest run."
    from nbdev.doclinks import nbglob
    found = {nb.resolve() for p in paths for nb in ([p] if p.is_file() else nbglob(p, as_path=True))}
    return sorted(found, key=lambda nb: (-nb.stat().st_size, nb))


def name(notebook: Path) -> str:
    return notebook.relative_to(ROOT).as_posix() if notebook.is_relative_to(ROOT) else str(notebook)


def other_python() -> str:
    "Why this Python gives other outputs than the stored ones, or '': the built-in corpus is its own documentation."
    expected = tomllib.loads((ROOT/"pyproject.toml").read_text(encoding="utf-8"))["tool"]["rank_bert"]["outputs_python"]
    here = ".".join(platform.python_version_tuple()[:2])
    return "" if here == expected else f"outputs not compared: stored by Python {expected}, this is {here}"


# In the notebook's own process

def cells_to_run(notebook: Path, skip: list[str], force: list[str]) -> int:
    "How many cells hold code that will run: directives and comments alone are none."
    from nbdev.test import nb_test_cells
    return sum(bool(re.sub(r"^\s*#.*$", "", c.source, flags=re.M).strip()) for c in nb_test_cells(notebook, skip, force))


def store(notebook: Path) -> None:
    "Clean a notebook that was just run and saved; date it where its figures belong to this run."
    from fastcore.nbio import read_nb, write_nb
    from nbdev.clean import nbdev_clean
    nb = read_nb(notebook)
    stored.slim(nb)
    if stored.stamped(notebook): nb.metadata["rank_bert"] = stored.stamp(nb)
    write_nb(nb, notebook)
    nbdev_clean.__wrapped__(str(notebook))


def quiet() -> None:
    "Hints about data are in its notes; as warnings they would store places of this machine. Lessons record those that they are about."
    from rank_bert.data import DataWarning
    warnings.simplefilter("ignore", DataWarning)


def run_here(notebook: Path, force: list[str], save: bool, fresh: bool) -> str:
    "Run `notebook` in this process; say what happened, ending with the number of cells, or raise SystemExit."
    asked.see_only(asked.asked_by_notebook(notebook))
    from fastcore.nbio import read_nb
    from nbdev.config import get_config
    from nbdev.test import test_nb
    quiet()
    skip, fresh = get_config(ROOT).tst_flags.split(), fresh and not stored.stamped(notebook)
    cells = cells_to_run(notebook, skip, force)
    if not cells: raise SystemExit(NO_CELL)
    target = notebook.with_name(f".fresh-{notebook.name}") if fresh else notebook  # beside it: the same working folder
    try:
        if fresh: target.write_bytes(notebook.read_bytes())
        passed, _ = test_nb(target, skip_flags=skip, force_flags=force, basepath=ROOT, save=save or fresh, cell_timeout=3600, cell_timing_min=1)
        if not passed: raise SystemExit("an error, shown above")
        if save or fresh: store(target)
        changed = stored.changes(read_nb(notebook), read_nb(target)) if fresh else []
    finally:
        if fresh: target.unlink(missing_ok=True)
    if changed: raise SystemExit("\n".join(changed) + f"\noutputs changed: look, then `python tools/test.py --save {name(notebook)}`")
    return f"{cells} cell{'s' * (cells != 1)}"


# In the process that forks the others

@dataclass
class Run:
    "A notebook in a process of its own."
    notebook: Path
    out: IO = field(default_factory=tempfile.TemporaryFile)  # what it prints
    start: float = field(default_factory=time.time)
    status: int = 0  # how the process ended

    @cached_property
    def printed(self) -> str:
        "All that it wrote, once it has ended."
        self.out.seek(0)
        said = self.out.read().decode(errors="replace")
        if self.status < 0: said += f"\nkilled by signal {-self.status}"
        elif not self.status and not self.counted(said): said += "\na cell ended the process"
        return said.strip()

    @property
    def passed(self) -> bool:
        return not self.status and self.counted(self.printed)

    def counted(self, said: str) -> bool:
        return bool(re.search(r"^\d+ cells?$", said.strip().splitlines()[-1] if said.strip() else ""))


def become(run: Run, args: argparse.Namespace) -> None:
    "Be the process of a notebook, to the end."
    code = 1
    try:
        for target in (1, 2): os.dup2(run.out.fileno(), target)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        print(run_here(run.notebook, args.flags.split(), args.save, args.fresh))
        code = 0
    except SystemExit as e: print(e)
    except BaseException: traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def report(run: Run) -> list[tuple[float, str]]:
    "Say how a notebook went; seconds and names of its slower cells."
    seconds, printed = time.time() - run.start, run.printed
    if run.passed: print(f"passed {name(run.notebook)} ({printed.splitlines()[-1]}, {seconds:.0f} s)", flush=True)
    else: print(f"failed {name(run.notebook)} ({seconds:.0f} s)\n" + "\n".join(f"    {o}" for o in printed.splitlines()), flush=True)
    return [(float(s), f"{name(run.notebook)} {cell}") for cell, s in SLOW.findall(printed)]


def in_turns(waiting: list[Path], args: argparse.Namespace, running: dict[int, Run]):
    "Each run as it ends, `jobs` at a time."
    while waiting or running:
        while waiting and len(running) < args.jobs:
            run = Run(waiting.pop(0))
            if not (pid := os.fork()): become(run, args)
            running[pid] = run
        pid, status = os.wait()
        run = running.pop(pid)
        run.status = os.waitstatus_to_exitcode(status)
        yield run


def run_all(args: argparse.Namespace) -> int:
    "Run the notebooks, report each as it ends, and return the exit code."
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results, slow, running = [], [], {}
    if args.fresh and (why := other_python()):
        print(why, flush=True)
        args.fresh = False
    home = tempfile.TemporaryDirectory(prefix="rank_bert-")  # tests neither read nor fill the user's feature store
    os.environ.update({**DEFAULTS, "RANK_BERT_HOME": home.name} | os.environ)
    warnings.filterwarnings("ignore", category=FutureWarning)  # PYTHONWARNINGS is for the processes that notebooks start
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # jemalloc's thread, which knows of forks
    found = notebooks(args.paths)
    for module in SHARED: import_module(module)
    try:
        for run in in_turns(found, args, running):
            results.append(run.passed)
            slow += report(run)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        for pid in running: os.kill(pid, signal.SIGTERM)
        home.cleanup()
        for seconds, cell in sorted(slow, reverse=True)[:args.durations]: print(f"{seconds:6.0f} s  {cell}")
        print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if results and all(results) else 1


if __name__ == "__main__": sys.exit(run_all(arguments()))
