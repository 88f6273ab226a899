"""Run notebooks as Colab would: `python tools/colab.py [PATH ...]`, against the built wheel and the newest libraries.

uv makes an environment hold what a notebook's own hidden install cell asks for, and no more; the notebook runs alone in
it, in a folder of its own. README's example and the command are tried too. The last line is `N passed, N failed`.
"""
import argparse, json, os, re, subprocess, sys, tempfile, time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

from asked import asked_by_notebook
from release import build
from test import DEFAULTS, ROOT, cells_to_run, name, notebooks

UV = [sys.executable, "-m", "uv"]
KERNEL = ["ipykernel", "nbclient"]  # what runs the notebooks; Colab has its own
NOT_COLABS = re.compile(r"PYTHON(PATH|HOME)|VIRTUAL_ENV|RANK_BERT_|JUPYTER_|HF_|MPL")  # what the user's shell may hold
ANSI = re.compile(r"\x1b\[[0-9;]*m")
WHERE = "import rank_bert\nassert 'site-packages' in rank_bert.__file__, rank_bert.__file__\n"
TAIL = 25  # lines of what a failure said


class Colab:
    "Commands in environments of what is asked for, the wheel among it, and how they ended."

    def __init__(self, work: Path, jobs: int):
        self.work, self.wheel, self.results, self.free = work, build(work/"dist")[0].as_uri(), [], SimpleQueue()
        for i in range(jobs):  # beside the checkout, where uv's cache is likely to be linked, not copied
            self.free.put(venv := ROOT/f".venv-colab-{i}")
            subprocess.run([*UV, "venv", "-q", "--clear", "--python", sys.executable, venv], check=True)
        folders = {o: str(work/o) for o in ("RANK_BERT_HOME", "HF_HOME", "IPYTHONDIR")}
        kept = {k: v for k, v in os.environ.items() if not NOT_COLABS.match(k)}
        self.env = {**DEFAULTS, **kept, **folders, "HF_HUB_OFFLINE": "1", "IN_TEST": "1"}

    def run(self, wanted: list[str], command: list[str], folder: Path, **env: str) -> tuple[bool, str, float]:
        "Run a command where `wanted` and no more is installed: (did it work, what it printed, seconds)."
        start, venv = time.time(), self.free.get()
        asked = "\n".join(f"{o} @ {self.wheel}" if o.startswith("rank_bert") else o for o in wanted)
        env = {**self.env, **env, "PATH": f"{venv/'bin'}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(venv)}
        compile, sync = ([*UV, "pip", o, "-q", "-", "--python", venv/"bin"/"python"] for o in ("compile", "sync"))
        try:
            for step in (compile, sync, [venv/"bin"/command[0], *command[1:]]):
                done = subprocess.run(step, cwd=folder, env=env, input=asked, text=True, errors="replace",
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                if done.returncode: break
                asked = done.stdout  # what was chosen
        finally: self.free.put(venv)
        return done.returncode == 0, ANSI.sub("", done.stdout).strip(), time.time() - start

    def report(self, what: str, passed: bool, printed: str, seconds: float) -> None:
        self.results.append(passed)
        print(f"{'passed' if passed else 'failed'} {what} ({seconds:.0f} s)", flush=True)
        if not passed: print("\n".join(f"    {o}" for o in printed.splitlines()[-TAIL:]), flush=True)

    def run_notebook(self, path: Path) -> tuple[bool, str, float]:
        "Run the cells of a notebook that the tests run, and see that the rank_bert it used is the installed one."
        ran, nb = {c.id for c in cells_to_run(path)}, json.loads(path.read_text(encoding="utf-8"))
        last = dict(cell_type="code", id="where", metadata={}, source=WHERE)
        cells = [c for c in nb["cells"] if c["id"] in ran]
        nb["cells"] = [c | dict(outputs=[], execution_count=None) for c in [*cells, last]]
        folder = Path(tempfile.mkdtemp(dir=self.work))
        (folder/path.name).write_text(json.dumps(nb), encoding="utf-8")
        execute = ["jupyter", "execute", "--timeout=1200", path.name]
        return self.run([*sorted(asked_by_notebook(path)), *KERNEL], execute, folder)

    def run_readme(self, some: bool) -> None:
        "What a reader of README does first: install, its example (with `some` on a part of the corpus), the command."
        readme = (ROOT/"README.md").read_text(encoding="utf-8")
        asks = re.search(r'^pip install "\.(\[[a-z,]+\])"$', readme, re.M)
        blocks = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)
        if not asks or not blocks: sys.exit('README.md has no line `pip install ".[...]"`, or no example')
        code = "\n".join([*blocks, WHERE])
        if some: code = code.replace("builtin_corpus()", "builtin_corpus(400)")  # nbs/index.ipynb takes all of it
        (self.work/"example.py").write_text(code, encoding="utf-8")
        demo = "rank_bert demo --max-documents 200 --epochs 2 --out ranker"
        for command in ("python example.py", "rank_bert --help", demo):
            cores = str(os.cpu_count())  # as a reader has
            self.report(command, *self.run([f"rank_bert{asks[1]}"], command.split(), self.work, OMP_NUM_THREADS=cores))


def covering(paths: list[Path]) -> list[Path]:
    "A few small notebooks that together ask for all that notebooks ask for: greedy, most new for a byte first."
    asked, found = {path: asked_by_notebook(path) for path in paths}, []
    left = set().union(*asked.values())
    while left:
        found.append(max(paths, key=lambda o: (len(asked[o] & left)/o.stat().st_size, name(o))))
        left -= asked[found[-1]]
    for path in [*found]:  # what later ones ask for too
        if asked[path] <= set().union(*(asked[o] for o in found if o != path)): found.remove(path)
    return found


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("paths", nargs="*", type=Path, default=[ROOT/"nbs"], help="notebooks or folders (all of nbs/)")
    p.add_argument("--some", action="store_true", help="a few that together ask for all that notebooks ask for: "
                   "tools/test.py runs the rest, and hides from each what it does not ask for")
    p.add_argument("-j", "--jobs", type=int, default=2, help="notebooks at a time (2)")
    args = p.parse_args()
    paths = notebooks(args.paths)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work, ThreadPoolExecutor(args.jobs) as pool:
        colab = Colab(Path(work).resolve(), args.jobs)
        if args.paths == [ROOT/"nbs"]: colab.run_readme(args.some)
        jobs = {pool.submit(colab.run_notebook, path): path for path in (covering(paths) if args.some else paths)}
        for job in as_completed(jobs): colab.report(name(jobs[job]), *job.result())
    print(f"{sum(colab.results)} passed, {len(colab.results) - sum(colab.results)} failed", flush=True)
    return 0 if colab.results and all(colab.results) else 1


if __name__ == "__main__": sys.exit(main())
