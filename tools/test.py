"""Run the notebooks as tests, each in a process of its own: `python tools/test.py [PATH ...]`.

A notebook passes when every cell ran without an error and at least one did run. Its process is forked from one that has
imported what notebooks need, and sees no more packages than the install cell brings; notebooks that see the same share
that one. Lessons come first, then tutorials, then the pages of measurements at a small size;
what `--minutes` leave no time for is listed as not run. At the end stand the slowest cells. The last line is
`N passed, N failed`.
"""
import argparse, gc, os, platform, re, signal, subprocess, sys, tempfile, time, tomllib, traceback, warnings
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOLS = str(ROOT/"tools")
sys.path[:] = [p for p in sys.path if p != TOOLS] + [TOOLS]  # last, where its names hide nobody else's
import asked, machine, stored

DEFAULTS = {"HF_HUB_OFFLINE": "1",    # no test may need the network
            "OMP_NUM_THREADS": "1",   # the same sums on every machine
            "SOURCE_DATE_EPOCH": "315619200", "MATPLOTLIBRC": f"{TOOLS}/matplotlibrc",  # the same pictures each time
            "PYTHONWARNINGS": "ignore::FutureWarning"}  # libraries tell their developers, and name paths of the machine
# What is imported before the forks: it sets no options, and does not look for packages of extras, as transformers does
SHARED = ("torch", "torch._dynamo", "scipy.stats", "sklearn.model_selection", "pandas", "matplotlib.pyplot")
# What looks for packages, and is imported where only those are seen that are asked for
LOOKING = ("transformers.models.bert.modeling_bert",)  # not fastai, which sets options of pandas
SLOW = re.compile(r"^\S+\.ipynb:(\S+): ([\d.]+)s$", re.M)  # as nbdev says it
NO_CELL = "no code cell ran: drop `skip_exec`, `eval: false` or the slow flag from at least one"


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("paths", nargs="*", type=Path, default=[ROOT/"nbs"], help="notebooks or folders (all of nbs/)")
    p.add_argument("-j", "--jobs", type=int, default=machine.jobs(3, 8, 2.5),
                   help="notebooks at a time (%(default)s here: 3, or more where there are more processors)")
    p.add_argument("--minutes", type=float, default=os.environ.get("RANK_BERT_TEST_MINUTES", "inf"),
                   help="start no tutorial and no page of measurements after that many, and no lesson after half as "
                   "many more (RANK_BERT_TEST_MINUTES, or no limit)")
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


def turn(notebook: Path) -> int:
    "0 for a lesson, 1 for a tutorial, 2 for a page of measurements."
    return 2 if stored.stamped(notebook) else int(notebook.parent.name == "tutorials")


def notebooks(paths: list[Path]) -> list[Path]:
    "The notebooks at `paths`: lessons, tutorials, pages; the largest file first, a rough guess at the longest run."
    from nbdev.doclinks import nbglob
    found = {nb.resolve() for p in paths for nb in ([p] if p.is_file() else nbglob(p, as_path=True))}
    return sorted(found, key=lambda nb: (turn(nb), -nb.stat().st_size, nb))


def name(notebook: Path) -> str:
    return notebook.relative_to(ROOT).as_posix() if notebook.is_relative_to(ROOT) else str(notebook)


def other_outputs() -> str:
    "Why outputs differ here from the stored ones, or '': another Python has other documentation; and the precision."
    settings = tomllib.loads((ROOT/"pyproject.toml").read_text(encoding="utf-8"))["tool"]["rank_bert"]
    asked = "from rank_bert.engines import best_dtype; print(best_dtype('cpu'))"
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    here = {"Python": ".".join(platform.python_version_tuple()[:2]), "vectors in": told.strip().removeprefix("torch.")}
    expected = {"Python": settings["outputs_python"], "vectors in": settings["outputs_precision"]}
    return next((f"outputs not compared: stored with {what} {expected[what]}, here it is {value}"
                 for what, value in here.items() if value != expected[what]), "")


# In the notebook's own process

def skipped_flags() -> list[str]:
    from nbdev.config import get_config
    return get_config(ROOT).tst_flags.split()


def cells_to_run(notebook: Path, force: list[str] = ()) -> list:
    "The cells that the tests run, as nbdev judges them, but those of directives and comments alone."
    from nbdev.test import nb_test_cells
    cells = nb_test_cells(notebook, skipped_flags(), list(force))
    found = [c for c in cells if re.sub(r"^\s*#.*$", "", c.source, flags=re.M).strip()]
    return found or sys.exit(f"{name(notebook)}: {NO_CELL}")


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
    "Hints about data are in its notes; as warnings they would store places of this machine. Lessons record theirs."
    from rank_bert.data import DataWarning
    warnings.simplefilter("ignore", DataWarning)


def run_here(notebook: Path, force: list[str], save: bool, fresh: bool) -> str:
    "Run `notebook` in this process; say what happened, ending with the number of cells, or raise SystemExit."
    from fastcore.nbio import read_nb
    from nbdev.test import test_nb
    quiet()
    cells, fresh = len(cells_to_run(notebook, force)), fresh and not stored.stamped(notebook)
    target = notebook.with_name(f".fresh-{notebook.name}") if fresh else notebook  # beside it: the same working folder
    try:
        if fresh: target.write_bytes(notebook.read_bytes())
        passed, _ = test_nb(target, skip_flags=skipped_flags(), force_flags=force, basepath=ROOT, save=save or fresh,
                            cell_timeout=3600, cell_timing_min=1)
        if not passed: raise SystemExit("an error, shown above")
        if save or fresh: store(target)
        changed = stored.changes(read_nb(notebook), read_nb(target)) if fresh else []
    finally:
        if fresh: target.unlink(missing_ok=True)
    if changed:
        remedy = f"outputs changed: look, then `python tools/test.py --save {name(notebook)}`"
        raise SystemExit("\n".join([*changed, remedy]))
    return f"{cells} cell{'s' * (cells != 1)}"


# In the process of all notebooks that ask for the same packages

@dataclass
class Run:
    "A notebook, and how its process ended."
    notebook: Path
    passed: bool = False
    printed: str = ""
    times: str = ""  # seconds by the clock, and of the processor


def become(out: int, notebook: Path, args: argparse.Namespace) -> None:
    "Be the process of a notebook, to the end."
    code = 1
    try:
        for target in (1, 2): os.dup2(out, target)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        print(run_here(notebook, args.flags.split(), args.save, args.fresh))
        code = 0
    except SystemExit as e: print(e)
    except BaseException: traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def run_forked(notebook: Path, args: argparse.Namespace) -> Run:
    "Run a notebook in a process of its own; all that it printed, and how it ended."
    run, start = Run(notebook), time.time()
    with tempfile.TemporaryFile() as out:
        if not (pid := os.fork()): become(out.fileno(), notebook, args)
        try: _, status, used = os.wait4(pid, 0)
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGTERM)
            raise
        run.times = f"{time.time() - start:.0f} s, {used.ru_utime + used.ru_stime:.0f} s CPU"
        out.seek(0)
        run.printed = out.read().decode(errors="replace").strip()
    code = os.waitstatus_to_exitcode(status)
    if code < 0: run.printed += f"\nkilled by signal {-code}"
    elif not code:
        run.passed = bool(re.search(r"^\d+ cells?\Z", run.printed, re.M))
        if not run.passed: run.printed += "\na cell ended the process"
    return run


def imported(modules: tuple[str, ...]) -> None:
    "Import what the forks share, so that no collection of theirs looks through it."
    for module in modules: import_module(module)
    gc.collect()
    gc.freeze()


def read_builtin() -> None:
    "Read the documentation of this Python, which takes ten seconds, once for all forks."
    from rank_bert.data import builtin_corpus
    from rank_bert.read.tags import builtin_tags
    from rank_bert.read.texts import builtin_texts
    quiet()
    for made in (builtin_corpus, builtin_texts, builtin_tags): made()


def work(conn: Connection, seen: frozenset[str], args: argparse.Namespace, builtin: bool) -> None:
    "See only the packages that are asked for, and run the notebooks that are sent, until no more come."
    try:
        asked.see_only(seen)
        if builtin: read_builtin()
        imported(LOOKING)
        while True: conn.send(run_forked(conn.recv(), args))
    except (KeyboardInterrupt, EOFError): pass
    except BaseException: traceback.print_exc()
    finally: os._exit(0)


# In the process that hands them out

@dataclass
class Worker:
    "A process for the notebooks that ask for the same packages."
    seen: frozenset[str]
    pid: int
    conn: Connection
    notebook: Path | None = None  # that it runs now

    def run(self) -> Run:
        "How its notebook ended."
        try: return self.conn.recv()
        except (EOFError, OSError): return Run(self.notebook, printed="its process ended")

    def end(self) -> None:
        "Let it go: one that waits for a notebook sees that none comes."
        if self.notebook: os.kill(self.pid, signal.SIGTERM)
        self.conn.close()
        os.waitpid(self.pid, 0)


def report(run: Run) -> list[tuple[float, str]]:
    "Say how a notebook went; seconds and names of its slower cells."
    lines = run.printed.splitlines()
    if run.passed: print(f"passed {name(run.notebook)} ({lines[-1]}, {run.times})", flush=True)
    else: print("\n    ".join([f"failed {name(run.notebook)} ({run.times})", *lines]), flush=True)
    return [(float(s), f"{name(run.notebook)} {cell}") for cell, s in SLOW.findall(run.printed)]


def hired(workers: list[Worker], seen: frozenset[str], args: argparse.Namespace, like: list[Path]) -> Worker:
    "A worker that is free, or a new one, for notebooks `like` these."
    for w in workers:
        if w.seen == seen and not w.notebook: return w
    here, there = Pipe()
    if not (pid := os.fork()):
        for c in (here, *(w.conn for w in workers)): c.close()  # a worker sees its own end only
        work(there, seen, args, sum("builtin_" in nb.read_text(encoding="utf-8") for nb in like) > 2)
    there.close()
    workers.append(Worker(seen, pid, here))
    return workers[-1]


def in_turns(waiting: list[Path], args: argparse.Namespace, workers: list[Worker]):
    "Each run as it ends, `jobs` at a time; what stays in `waiting` found no time."
    begin, seen = time.time(), {}
    for nb in waiting[:]:
        try: seen[nb] = asked.seen_by_notebook(nb)
        except SystemExit as e:
            waiting.remove(nb)
            yield Run(nb, printed=str(e))
    def due() -> bool: return bool(waiting) and time.time() - begin < 60*args.minutes*(1 if turn(waiting[0]) else 1.5)
    def busy() -> dict[Connection, Worker]: return {w.conn: w for w in workers if w.notebook}
    while busy() or due():
        while len(busy()) < args.jobs and due():
            packages = seen[waiting[0]]
            worker = hired(workers, packages, args, [nb for nb in waiting if seen[nb] == packages])
            worker.notebook = waiting.pop(0)
            with suppress(BrokenPipeError): worker.conn.send(worker.notebook)
        for conn in wait(list(busy())):
            worker = busy()[conn]
            run, worker.notebook = worker.run(), None
            if worker.seen not in {seen[nb] for nb in waiting}:
                worker.end()
                workers.remove(worker)
            yield run


def run_all(args: argparse.Namespace) -> int:
    "Run the notebooks, report each as it ends, and return the exit code."
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results, slow, workers, waiting = [], [], [], notebooks(args.paths)
    if args.fresh and (why := other_outputs()):
        print(why, flush=True)
        args.fresh = False
    home = tempfile.TemporaryDirectory(prefix="rank_bert-")  # tests neither read nor fill the user's feature store
    os.environ.update({**DEFAULTS, "RANK_BERT_HOME": home.name} | os.environ)
    warnings.filterwarnings("ignore", category=FutureWarning)  # PYTHONWARNINGS is for processes that notebooks start
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # jemalloc copes
    asked.owners()
    imported(SHARED)
    try:
        for run in in_turns(waiting, args, workers):
            results.append(run.passed)
            slow += report(run)
        for nb in waiting: print(f"not run {name(nb)}: the time is over")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        for worker in workers: worker.end()
        home.cleanup()
        gc.unfreeze()  # or libraries report leaks at the end
        for seconds, cell in sorted(slow, reverse=True)[:args.durations]: print(f"{seconds:6.0f} s  {cell}")
        print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if results and all(results) else 1


if __name__ == "__main__": sys.exit(run_all(arguments()))
