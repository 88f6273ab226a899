"""Run the notebooks as tests, each in a process of its own: `python tools/test.py [PATH ...]`.

A notebook passes when every cell ran without an error and at least one did run. The last line is `N passed, N failed`.
"""
import argparse, os, platform, re, signal, subprocess, sys, tempfile, time, tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT/"tools"))  # last, where its names hide nobody else's
import asked, stored

DEFAULTS = {"HF_HUB_OFFLINE": "1",    # no test may need the network
            "OMP_NUM_THREADS": "1",   # the same sums on every machine
            "SOURCE_DATE_EPOCH": "315619200", "MATPLOTLIBRC": str(ROOT/"tools"/"matplotlibrc"),  # the same pictures each time
            "PYTHONWARNINGS": "ignore::FutureWarning"}  # of libraries to their developers; they name paths of the machine
NO_CELL = "no code cell ran: drop `skip_exec`, `eval: false` or the slow flag from at least one"


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("paths", nargs="*", type=Path, default=[ROOT/"nbs"], help="notebooks or folders (all of nbs/)")
    p.add_argument("-j", "--jobs", type=int, default=2, help="notebooks at a time (2)")
    p.add_argument("--flags", default="", help="flags whose cells run too, as in --flags slow")
    p.add_argument("--save", action="store_true", help="store the outputs of notebooks that pass, then clean them")
    p.add_argument("--fresh", action=argparse.BooleanOptionalAction,
                   help="fail where stored outputs differ from what the cells give now (the default where CI is set)")
    p.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
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
    import warnings
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
        passed, _ = test_nb(target, skip_flags=skip, force_flags=force, basepath=ROOT, save=save or fresh, cell_timeout=3600)
        if not passed: raise SystemExit("an error, shown above")
        if save or fresh: store(target)
        changed = stored.changes(read_nb(notebook), read_nb(target)) if fresh else []
    finally:
        if fresh: target.unlink(missing_ok=True)
    if changed: raise SystemExit("\n".join(changed) + f"\noutputs changed: look, then `python tools/test.py --save {name(notebook)}`")
    return f"{cells} cell{'s' * (cells != 1)}"


# In the process that starts the others

def run_apart(notebook: Path, args: argparse.Namespace, running: set) -> tuple[bool, str, float]:
    "Run `notebook` in a new process: (passed, what it printed, seconds)."
    command = [sys.executable, "-P", __file__, "--one", str(notebook), "--flags", args.flags]
    command += ["--fresh" if args.fresh else "--no-fresh", *["--save"] * args.save]
    start = time.time()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", env={**DEFAULTS, **os.environ})
    running.add(process)
    printed, _ = process.communicate()
    running.discard(process)
    finished = re.search(r"^\d+ cells?$", printed.strip().splitlines()[-1] if printed.strip() else "")
    if process.returncode < 0: printed += f"\nkilled by signal {-process.returncode}"
    elif process.returncode == 0 and not finished: printed += "\na cell ended the process"
    return process.returncode == 0 and bool(finished), printed.strip(), time.time() - start


def report(notebook: Path, passed: bool, printed: str, seconds: float) -> None:
    if passed: print(f"passed {name(notebook)} ({printed.splitlines()[-1]}, {seconds:.0f} s)", flush=True)
    else: print(f"failed {name(notebook)} ({seconds:.0f} s)\n" + "\n".join(f"    {o}" for o in printed.splitlines()), flush=True)


def run_all(args: argparse.Namespace) -> int:
    "Run the notebooks, report each as it ends, and return the exit code."
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    results, running = [], set()
    if args.fresh and (why := other_python()):
        print(why, flush=True)
        args.fresh = False
    home = tempfile.TemporaryDirectory(prefix="rank_bert-")  # tests neither read nor fill the user's feature store
    os.environ.setdefault("RANK_BERT_HOME", home.name)
    pool = ThreadPoolExecutor(args.jobs)
    try:
        jobs = {pool.submit(run_apart, nb, args, running): nb for nb in notebooks(args.paths)}
        for job in as_completed(jobs):
            report(jobs[job], *job.result())
            results.append(job.result()[0])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in list(running): process.terminate()
        home.cleanup()
        print(f"{sum(results)} passed, {len(results) - sum(results)} failed", flush=True)
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    args = arguments()
    if args.one: print(run_here(args.paths[0].resolve(), args.flags.split(), args.save, args.fresh))
    else: sys.exit(run_all(args))
