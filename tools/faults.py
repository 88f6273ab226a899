"""Faults as users meet them, each with what must hold: `python tools/faults.py`, or `--quick`, `--group NAME`, `--case NAME`, `--list`.

Commands are ended at every stage, disks are full, folders are hostile, files are damaged. Each case runs in a process and a folder of its own,
made from one process that has imported everything, on a ranker, a classifier and a tagger of 18 thousand parameters. A case fails when
what came is not what must hold, when it takes longer than its limit, or when it crashes. `--python PATH` tries another Python.
The last line is `N passed, N failed`.
"""
import argparse, contextlib, faulthandler, gzip, hashlib, json, os, random, re, resource, shutil, signal, subprocess, sys, tempfile, time, traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, NamedTuple

from machine import cores

ROOT = Path(__file__).resolve().parent.parent
QUIET = dict(HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false", PYTHONPATH=str(ROOT))
TRAIN = ("train", "shop", "--backbone", "little", "--group", "dial_id", "--size", "20", "--epochs", "3")
CLASSIFY = ("classify", "kinds.csv", "--backbone", "little", "--epochs", "3")
ENCODE = ("encode", "lines.txt", "--backbone", "little")
EXPERIMENT = ("experiment", "staleness", "--data", "shop", "--group", "dial_id", "--backbone", "little", "--seeds", "1", "--folder", "kept")
CODES = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}


# Cases

@dataclass
class Case:
    "What is tried, and what must hold."
    group: str
    name: str
    does: str
    holds: str
    run: Callable
    quick: bool
    limit: int

CASES: list[Case] = []

def case(group: str, does: str, holds: str, quick: bool = True, limit: int = 120, name: str = ""):
    "Enter a function as a case of a group."
    def enter(run):
        CASES.append(Case(group, name or run.__name__.replace("_", "-"), does, holds, run, quick, limit))
        return run
    return enter

class Wrong(AssertionError):
    "What came instead of what must hold."

def must(held: bool, came) -> None:
    "Raise `Wrong`, with what came, unless it held."
    if not held: raise Wrong(str(came)[:1500])


# Processes

class Done(NamedTuple):
    "How a command ended."
    code: int  # negative: the signal
    out: str
    said: str

def finish(pid: int, limit: float) -> int:
    "Wait for a process; its exit code, or `Wrong` when it hangs."
    end = time.monotonic() + limit
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended: return os.waitstatus_to_exitcode(status)
        time.sleep(.005)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise Wrong(f"it hung: no end after {limit:.0f} s")

def start(run: Callable, before: Callable|None = None, env: dict|None = None, stdin: str = "") -> tuple[int, Path]:
    "Call `run` in a process of its own; its id, and the folder of what it prints."
    printed = Path(tempfile.mkdtemp(prefix="printed-", dir=os.environ["FAULTS"]))
    (printed/"stdin").write_text(stdin)
    pid = os.fork()
    if pid: return pid, printed
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "out", os.O_WRONLY|os.O_CREAT), (2, "said", os.O_WRONLY|os.O_CREAT)):
            os.dup2(os.open(printed/name, flags), number)
        sys.stdin, sys.stdout, sys.stderr = (open(n, mode, encoding="utf-8", closefd=False) for n, mode in enumerate("rww"))
        os.environ.update(env or {})
        if before: before()
        run()
        code = 0
    except SystemExit as e: code = e.code if isinstance(e.code, int) else int(e.code is not None)
    except BaseException: traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)

def stop(pid: int, printed: Path, limit: float = 90) -> Done:
    "Wait for what `start` began."
    code = finish(pid, limit)
    texts = (((printed/n).read_bytes().decode("utf-8", "replace") if (printed/n).exists() else "") for n in ("out", "said"))
    return Done(code, *texts)

def forked(run: Callable, **kwargs) -> Done:
    "Call a function in a process of its own, and wait."
    limit = kwargs.pop("limit", 90)
    return stop(*start(run, **kwargs), limit)

def main_of(args) -> Callable:
    "The command as a function."
    def run():
        from rank_bert import cli
        sys.argv = ["rank_bert", *map(str, args)]
        cli.main()
    return run

def command(*args, **kwargs) -> Done:
    "Run `rank_bert` in a process that has imported everything already."
    return forked(main_of(args), **kwargs)

def real(*args, env: dict|None = None, **kwargs) -> Done:
    "Run `rank_bert` as a shell would start it."
    code = "from rank_bert.cli import program; program()"
    done = subprocess.run([sys.executable, "-c", code, *map(str, args)], capture_output=not kwargs, timeout=110,
                          env={k: v for k, v in (dict(os.environ) | (env or {})).items() if v is not None}, **kwargs)
    return Done(done.returncode, *((o or b"").decode("utf-8", "replace") for o in (done.stdout, done.stderr)))


# What holds

def works(done: Done, *words: str) -> Done:
    "The command did its work, and says some words."
    must(done.code == 0 and "Traceback" not in done.said, f"exit code {done.code}: {done.said[-900:]}")
    for word in words: must(word in done.out + done.said, f"nothing about {word!r}: {done.out[-400:]} {done.said[-400:]}")
    return done

def refuses(done: Done, *words: str, code: int = 1) -> Done:
    "The command ended with one sentence that holds some words, and printed no result."
    must(done.code == code and "Traceback" not in done.said, f"exit code {done.code}, not {code}: {done.said[-900:]}")
    last = done.said.strip().splitlines()[-1:] or [""]
    must(code == 2 or last[0].startswith("error: "), f"the last line is no sentence: {done.said[-600:]}")
    must("should not happen" not in done.said, done.said[-600:])
    must(not done.out, f"it printed {done.out[:300]!r}")
    for word in words: must(word.lower() in done.said.lower(), f"nothing about {word!r}: {done.said[-600:]}")
    return done

def raises(run: Callable, *words: str) -> Exception:
    "The call raises an error for people: one of these kinds, with some words in it."
    try: found = run()
    except (ValueError, OSError, TypeError, ImportError) as e:
        must(type(e) not in (UnicodeDecodeError, UnicodeEncodeError), f"{type(e).__name__}: {e}")
        for word in words: must(word.lower() in str(e).lower(), f"nothing about {word!r}: {type(e).__name__}: {e}")
        return e
    except Exception as e: raise Wrong(f"{type(e).__name__}: {e}"[:800]) from e
    raise Wrong(f"no error: {found!r}"[:300])

def timeless(p: Path) -> bytes:
    "The bytes of a file; of the JSON file of a saved model without the seconds of its training, and its seal with them."
    held = p.read_bytes()
    if p.name not in ("ranker.json", "classifier.json") or b'"seconds"' not in held: return held
    try:
        about = json.loads(held)
        del about["sha256"], about["about"]["run"]["seconds"]
    except (ValueError, KeyError, TypeError): return held  # damaged
    return json.dumps(about, sort_keys=True).encode()

def tree(folder: str|Path) -> dict[str, str]:
    "What a folder holds: each file by the hash of its bytes, seconds left out, each link by where it leads."
    found, folder = {}, Path(folder)
    for p in sorted(folder.rglob("*")):
        name = p.relative_to(folder).as_posix()
        if p.is_symlink(): found[name] = "-> " + os.readlink(p)
        elif p.is_file(): found[name] = hashlib.sha256(timeless(p)).hexdigest()
    return found

def same(a: str|Path, b: str|Path) -> None:
    "Two folders are equal byte for byte."
    a, b = tree(a), tree(b)
    must(a == b, f"files differ: {sorted(n for n in a.keys() | b.keys() if a.get(n) != b.get(n))}")

def hidden(folder: str|Path = ".") -> list[str]:
    "Hidden files and folders: what writers leave unfinished."
    return sorted(p.name for p in Path(folder).iterdir() if p.name.startswith("."))

def clean(folder: str|Path = ".") -> None: must(not hidden(folder), f"left behind: {hidden(folder)}")


# Faults

WRITES = os.O_WRONLY|os.O_RDWR|os.O_CREAT

CHANGES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "ctypes.dlsym")  # the last: a call by name, such as renameat2

def on_file(do: Callable, path: str, n: int = 1, events: tuple = CHANGES, reading: bool = False) -> Callable:
    "A hook for `before`: `do` is called when for the n-th time a file that fits `path` is written, made, renamed or removed, or is read."
    def set_hook():
        seen = Counter()
        def hook(event, args):
            if event not in events or event == "open" and bool(args[2] & WRITES) == reading: return
            if not any(re.search(path, os.fsdecode(a)) for a in args if isinstance(a, (str, bytes))): return
            seen["hit"] += 1
            if seen["hit"] == n: do()
        sys.addaudithook(hook)
    return set_hook

def on_call(do: Callable, owner: type, name: str, n: int) -> Callable:
    "A hook for `before`: `do` is called before the n-th call of a method."
    def set_hook():
        call, seen = getattr(owner, name), Counter()
        def counted(*args, **kwargs):
            seen["call"] += 1
            if seen["call"] == n: do()
            return call(*args, **kwargs)
        setattr(owner, name, counted)
    return set_hook

def on_step(do: Callable, n: int) -> Callable:
    from fastai.learner import Learner
    return on_call(do, Learner, "one_batch", n)

def on_batch(do: Callable, n: int) -> Callable:
    "The n-th batch that is padded for an encoder."
    from rank_bert.models import Encoder
    return on_call(do, Encoder, "pad", n)

def signals(number: int) -> Callable: return lambda: os.kill(os.getpid(), number)

def room(most: int) -> Callable:
    "A hook for `before`: no file may be longer, as on a full disk."
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

def no_power() -> None:
    "A hook for `before`: what files permit is all that root may do."
    if os.geteuid(): return
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32*2)(0x20080522, 0)  # the third version of capabilities: two words of each kind
    data = (ctypes.c_uint32*6)()
    must(libc.capset(header, data) == 0, "the powers of root could not be given up")

def all_of(*hooks: Callable) -> Callable: return lambda: [hook() for hook in hooks]

def mark_of(folder: Path) -> Path: return next(folder/n for n in ("ranker.json", "classifier.json", "embedder.json") if (folder/n).exists())

def seal(folder: str|Path) -> None:
    "Refresh all hashes of a saved folder, as somebody who means harm would."
    from rank_bert.base import core
    mark = mark_of(Path(folder))
    about = json.loads(mark.read_text())
    for name in about["files"]:
        if (mark.parent/name).is_file(): about["files"][name] = hashlib.sha256((mark.parent/name).read_bytes()).hexdigest()
    if "sha256" in about: about["sha256"] = core._seal(about)
    mark.write_text(json.dumps(about, indent=1, ensure_ascii=False))

def edit(folder: str|Path, change: Callable) -> None:
    "Change what the JSON file of a saved folder says, hashes refreshed."
    mark = mark_of(Path(folder))
    about = json.loads(mark.read_text())
    change(about)
    mark.write_text(json.dumps(about, indent=1, ensure_ascii=False))
    if isinstance(about.get("files"), dict): seal(folder)

def tensors(file: str|Path, change: Callable) -> None:
    "Change arrays of a saved folder, hashes refreshed."
    from safetensors.numpy import load_file, save_file
    found = {k: v.copy() for k, v in load_file(file).items()}
    change(found)
    save_file(found, file)
    seal(Path(file).parent)

def ask(folder: str = "ranker", *options) -> Done: return command("search", folder, QUERY, "--json", *options)
def say(folder: str = "kinds", *options) -> Done: return command("predict", folder, QUERY, "--json", *options)

QUERY = "where is the answer"


# What every case starts from

def make() -> None:
    "The folder that each case gets a copy of."
    from rank_bert.models import save_encoder
    from rank_bert.tasks.tagging import tagger_learner
    from rank_bert.read.testing import synth_ranking, tiny_encoder
    from rank_bert.read.tags import read_tags
    save_encoder(tiny_encoder(), Path("little"))
    data = synth_ranking(24)
    Path("shop").mkdir()
    data.documents.to_json("shop/documents.jsonl", orient="records", lines=True)
    queries = data.queries.assign(dial_id=data.queries.group, doc_id=data.queries.group)
    queries[["query_id", "text", "type", "dial_id", "doc_id"]].to_json("shop/queries.jsonl", orient="records", lines=True)
    data.queries[["text", "type"]].rename(columns=dict(type="label")).to_csv("kinds.csv", index=False)
    Path("lines.txt").write_text("".join(t + "\n" for t in data.queries.text))
    words = [q.text.split()[:4] for q in data.queries.itertuples()]
    Path("tags.conll").write_text("\n\n".join("\n".join(f"{w} {'B-X' if i == 1 else 'O'}" for i, w in enumerate(ws)) for ws in words) + "\n")
    learn = tagger_learner(read_tags("tags.conll"), "little", "backbone", bs=32)
    with learn.no_bar(), learn.no_logging(): learn.fit(1, 1e-2)
    learn.tagger().save("tags")

def prepare(base: Path) -> None:
    "Make everything once."
    os.chdir(base)
    works(forked(make, limit=300))
    for args in ((*TRAIN, "--out", "ranker"), (*TRAIN, "--out", "older", "--seed", "1"), (*CLASSIFY, "--out", "kinds"),
                 (*CLASSIFY, "--out", "older_kinds", "--seed", "1"), (*ENCODE, "--out", "vectors.st")):
        works(command(*args, limit=300))

# Ended at each stage

STAGES = {
    "train": {
        "reading": lambda do: on_file(do, "queries.jsonl", reading=True),
        "encoding": lambda do: on_batch(do, 2),
        "storing": lambda do: on_file(do, "features", n=4),
        "training": lambda do: on_step(do, 3),
        "saving": lambda do: on_file(do, r"\.new/", n=4),
        "swapping": lambda do: on_file(do, "renameat2$|out$", events=("os.rename", "ctypes.dlsym")),
    },
    "encode": {
        "encoding": lambda do: on_batch(do, 1),
        "storing": lambda do: on_file(do, "features", n=4),
        "writing": lambda do: on_file(do, r"/\.out-[^/]*\.tmp$", events=("open",)),
    },
    "classify": {
        "encoding": lambda do: on_batch(do, 2),
        "training": lambda do: on_step(do, 3),
        "saving": lambda do: on_file(do, r"\.new/", n=3),
    },
}
COMMANDS = {"train": (TRAIN, "older", "ranker"), "encode": (ENCODE, None, "vectors.st"), "classify": (CLASSIFY, "older_kinds", "kinds")}

def put(name: str, to: str) -> None:
    "A copy of a file or folder."
    if Path(name).is_dir(): shutil.copytree(name, to, symlinks=True)
    else: shutil.copy(name, to)

def ended(what: str, stage: str, number: int) -> None:
    "End a command that replaces an older result, then run it again."
    args, older, wanted = COMMANDS[what]
    fresh = dict(RANK_BERT_HOME=os.path.abspath("fresh"))
    if older: put(older, "out")
    done = command(*args, "--out", "out", env=fresh, before=STAGES[what][stage](signals(number)))
    must(done.code == CODES[number], f"exit code {done.code}, not {CODES[number]}: {done.said[-600:]}")
    if number != signal.SIGKILL:
        must("kept" in done.said and "Traceback" not in done.said, done.said[-600:])
        clean()
    if older: must(tree("out") in (tree(older), tree(wanted)), f"the older result is lost: {list(tree('out'))}")
    else: must(not Path("out").exists(), "half of a result is there")
    works(command(*args, "--out", "out", env=fresh))
    if Path(wanted).is_dir(): same("out", wanted)
    else: must(Path("out").read_bytes() == Path(wanted).read_bytes(), "vectors differ from those of an undisturbed run")
    clean()

for what, stages in STAGES.items():
    for stage in stages:
        for number, short in ((signal.SIGKILL, "kill"), (signal.SIGTERM, "term"), (signal.SIGINT, "ctrl-c")):
            case("ended", f"{short} while `{what}` is {stage}, over an older result; then again",
                 "the older result is whole; the second run equals an undisturbed one", name=f"{what}-{stage}-{short}",
                 quick=(stage, short) in (("saving", "kill"), ("training", "ctrl-c"), ("encoding", "term"), ("writing", "kill")))(
                lambda what=what, stage=stage, number=number: ended(what, stage, number))

def experiment_ended(number: int, hook: Callable) -> None:
    undisturbed = works(command(*EXPERIMENT[:-1], "undisturbed", limit=110))
    done = command(*EXPERIMENT, "--out", "runs.csv", before=hook(signals(number)))
    must(done.code == CODES[number] and not Path("runs.csv").exists(), f"exit code {done.code}: {done.said[-500:]}")
    again = works(command(*EXPERIMENT, "--out", "runs.csv", limit=110))
    must(again.out == undisturbed.out, f"another table: {again.out} instead of {undisturbed.out}")
    clean()

for stage, hook in (("training", lambda do: on_step(do, 30)), ("keeping-a-run", lambda do: on_file(do, "kept", n=12)), ("writing", lambda do: on_file(do, r"runs\.csv.*\.tmp$", events=("open",)))):
    for number, short in ((signal.SIGKILL, "kill"), (signal.SIGINT, "ctrl-c")):
        case("ended", f"{short} while `experiment` is {stage}; then again", "finished runs are kept; the table is that of an undisturbed run",
             name=f"experiment-{stage}-{short}", quick=False, limit=400)(lambda number=number, hook=hook: experiment_ended(number, hook))

def saved_anywhere(kind: str, number: int) -> None:
    "End a save at each of its steps."
    from rank_bert.tasks.classifiers import load_classifier
    from rank_bert.rankers.training import load_ranker
    load, new, older = (load_ranker, "ranker", "older") if kind == "ranker" else (load_classifier, "kinds", "older_kinds")
    model = load(new)
    for n in range(1, 400):
        shutil.rmtree("out", ignore_errors=True)
        put(older, "out")
        done = forked(lambda: model.save("out"), before=on_file(signals(number), re.escape(os.getcwd() + "/.out-"), n), limit=30)
        found = tree("out")
        must(found in (tree(older), tree(new)), f"step {n}: neither the old nor the new folder is whole: {sorted(found)}")
        if number != signal.SIGKILL: clean()
        if done.code == 0: break
    must(5 < n < 399, f"{n} steps")
    clean()  # also what writers that were killed had left
    same("out", new)

for kind in ("ranker", "classifier"):
    for number, short in ((signal.SIGKILL, "kill"), (signal.SIGINT, "ctrl-c")):
        case("ended", f"{short} at each step of saving a {kind} over an older one, one after the other",
             "every time the old or the new folder is whole; the next save clears the rest", name=f"save-{kind}-{short}",
             quick=kind == "ranker", limit=200)(lambda kind=kind, number=number: saved_anywhere(kind, number))

def some_documents(name: str, ids: list[str]) -> str:
    "A file of new documents."
    Path(name).write_text("".join(json.dumps(dict(doc_id=d, text=f"where is {d} of the answer"*5)) + "\n" for d in ids))
    return name

def documents_ended(number: int) -> None:
    "End `documents` at each of its steps with files, then at random moments."
    from rank_bert.rankers.training import load_ranker
    args, rng = ("documents", "out", "--add", some_documents("new.jsonl", ["n1", "n2"])), random.Random(0)
    put("ranker", "wanted")
    works(command("documents", "wanted", *args[2:]))
    def fresh():
        shutil.rmtree("out", ignore_errors=True)
        put("ranker", "out")
    def whole(step):
        must(tree("out") in (tree("ranker"), tree("wanted")), f"{step}: neither the older nor the newer ranker is whole: {sorted(tree('out'))}")
        must(len(load_ranker("out").documents) in (24, 26), f"{step}: other documents")
    for n in range(1, 400):
        fresh()
        done = command(*args, before=on_file(signals(number), re.escape(os.getcwd() + "/.out-"), n))
        whole(f"step {n}")
        if done.code == 0: break
    must(5 < n < 399, f"{n} steps")
    times, ends = [], Counter()
    for _ in range(3):
        began = time.monotonic()
        works(command("documents", "wanted", "--update", "new.jsonl"))
        times.append(time.monotonic() - began)
    lasts = sorted(times)[1]
    for n in range(25):
        fresh()
        pid, printed = start(main_of(args))
        moment = time.monotonic() + rng.random()*1.5*lasts
        while time.monotonic() < moment and not os.waitid(os.P_PID, pid, os.WEXITED|os.WNOHANG|os.WNOWAIT): time.sleep(.002)
        with contextlib.suppress(ProcessLookupError): os.kill(pid, number)
        ends[stop(pid, printed).code] += 1
        whole(f"moment {n}")
    must(ends[CODES[number]] > 5, f"few were ended: {ends}")
    if tree("out") != tree("wanted"): works(command(*args))
    same("out", "wanted")
    clean()

for number, short in ((signal.SIGKILL, "kill"), (signal.SIGTERM, "term")):
    case("ended", f"{short} `documents` at each of its steps and at random moments", "the folder loads, and is the older or the newer ranker",
         name=f"documents-{short}", quick=number == signal.SIGKILL, limit=600)(lambda number=number: documents_ended(number))

@case("ended", "Ctrl-C between two renames of a save", "the old ranker is back, or the new one is there")
def ctrl_c_in_the_swap():
    from rank_bert.rankers.training import load_ranker
    ranker = load_ranker("ranker")
    for n in range(1, 30):
        shutil.rmtree("out", ignore_errors=True)
        put("older", "out")
        done = forked(lambda: ranker.save("out"), before=on_file(signals(signal.SIGINT), "renameat2$|/out", n, ("os.rename", "os.rmdir", "os.remove", "ctypes.dlsym")), limit=30)
        must(tree("out") in (tree("older"), tree("ranker")), f"step {n}: {sorted(tree('out'))}")
        clean()
        if done.code == 0: break

@case("ended", "Ctrl-C in Python while a classifier trains, then fit again", "the Learner works, and frozen weights are as they were")
def python_ctrl_c():
    import torch
    from rank_bert.tasks.classifiers import classifier_learner
    from rank_bert.read.texts import read_texts
    learn = classifier_learner(read_texts("kinds.csv"), "little", "backbone", seed=0)
    before = [p.clone() for p in learn.model.encoder.parameters()]
    def interrupt(): raise KeyboardInterrupt
    on_step(interrupt, 3)()
    try:
        with learn.no_bar(), learn.no_logging(): learn.fit(1, 1e-3)
    except KeyboardInterrupt: pass
    with learn.no_bar(), learn.no_logging(): learn.fit(1, 1e-3)
    must(all(torch.equal(a, b) for a, b in zip(before, learn.model.encoder.parameters())), "frozen weights changed")


TOGETHER = """
import os, signal, sys, torch
from pathlib import Path
from fastai.callback.core import Callback
from fastai.distributed import *
from rank_bert.tasks.classifiers import classifier_learner
from rank_bert.scale.processes import Checkpoint, first_process
from rank_bert.read.texts import read_texts
class Kill(Callback):
    order = 200
    def after_step(self):
        if sys.argv[2] == 'kill' and (self.epoch, self.iter, os.environ['RANK']) == (2, 1, '1'): os.kill(os.getpid(), signal.SIGKILL)
    def before_train(self):
        if first_process(): Path(sys.argv[1] + '.epochs').open('a').write(f'{self.epoch} ')
learn = classifier_learner(read_texts('kinds.csv'), 'little', 'none', bs=8, seed=0, device='cpu')
with learn.distrib_ctx(cpu=True), learn.no_bar(), learn.no_logging():
    learn.fit_one_cycle(4, 1e-3, cbs=[Checkpoint(sys.argv[1] + '.safetensors'), Kill()])
if first_process(): learn.classifier().save(sys.argv[1])
"""

@case("ended", "one of two processes of a training is killed; then the same script is started again",
      "the run ends with a message that names the process and the signal; the second goes on, and gives the classifier of an undisturbed run",
      quick=False, limit=400)
def one_of_two_processes():
    Path("together.py").write_text(TOGETHER)
    def started(name: str, how: str) -> subprocess.CompletedProcess:
        launch = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "together.py", name, how]
        return subprocess.run(launch, env=dict(os.environ, **QUIET), capture_output=True, text=True, timeout=180)
    def passed(name: str) -> str: return Path(f"{name}.epochs").read_text().strip()
    done = started("hit", "kill")
    must(done.returncode != 0 and "rank      : 1" in done.stderr and "Signal 9 (SIGKILL)" in done.stderr, done.stderr[-1500:])
    must(not Path("hit").exists() and Path("hit.safetensors").exists(), "a classifier of a killed training, or no checkpoint")
    for name in ("hit", "calm"):
        done = started(name, "go on")
        must(done.returncode == 0, done.stderr[-1500:])
        must(not Path(f"{name}.safetensors").exists(), "the checkpoint of a training that has ended is left")
    must((passed("hit"), passed("calm")) == ("0 1 2 2 3", "0 1 2 3"), (passed("hit"), passed("calm")))
    weights = [Path(name, "head.safetensors").read_bytes() for name in ("hit", "calm")]
    must(weights[0] == weights[1], "other weights than those of an undisturbed training")


# No room

@case("room", "train where the store's disk is full", "a sentence that names the store; nothing half-written")
def store_full():
    done = command(*TRAIN, "--out", "out", env=dict(RANK_BERT_HOME="fresh"), before=room(3000))
    refuses(done, "no room", "fresh")
    must(not Path("out").exists(), "out is there")
    clean()
    works(command(*TRAIN, "--out", "out", env=dict(RANK_BERT_HOME="fresh")))
    same("out", "ranker")

@case("room", "train, and the disk is full when the ranker is saved", "a sentence that names the folder; the older ranker stays")
def save_full():
    put("older", "out")
    refuses(command(*TRAIN, "--out", "out", before=room(20000)), "no room", "out")
    same("out", "older")
    clean()

@case("room", "classify, and the disk is full when the classifier is saved", "a sentence that names the folder; the older one stays")
def classifier_full():
    put("older_kinds", "out")
    refuses(command(*CLASSIFY, "--out", "out", before=room(20000)), "no room", "out")
    same("out", "older_kinds")
    clean()

@case("room", "encode, and the disk is full when the vectors are written", "a sentence; the vectors are kept, and written at once elsewhere")
def vectors_full():
    refuses(command(*ENCODE, "--out", "out.st", before=room(4000)), "out.st", "kept")
    must(not Path("out.st").exists(), "half of a file is there")
    clean()
    stored = tree("home")
    works(command(*ENCODE, "--out", "other.st"))
    must(tree("home") == stored and Path("other.st").read_bytes() == Path("vectors.st").read_bytes(), "encoded again, or differently")

@case("room", "train to a small file system that fills up (tmpfs, as root; else nothing is tried)", "a sentence; no file is left on it")
def small_disk():
    Path("disk").mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", "disk"], capture_output=True).returncode: return
    try:
        refuses(command(*TRAIN, "--out", "disk/out"), "no room", "disk/out")
        must(not os.listdir("disk"), f"left behind: {os.listdir('disk')}")
        refuses(command(*TRAIN, "--out", "disk"), "mount point")
        with contextlib.suppress(OSError), open("disk/full", "wb", buffering=0) as f: f.write(b"0"*2**20)
        refuses(command(*ENCODE, "--out", "disk/v.st"), "v.st")
        must(os.listdir("disk") == ["full"], f"left behind: {os.listdir('disk')}")
    finally: subprocess.run(["umount", "disk"], check=True)

@case("room", "search with stdout on a full disk", "a sentence, exit code 1")
def stdout_full():
    with open("/dev/full", "w") as full: done = real("search", "ranker", QUERY, stdout=full, stderr=subprocess.PIPE)
    refuses(done, "stdout", "No space left")

@case("room", "experiment, and the disk is full when the table is written", "a sentence; the runs are kept", quick=False, limit=300)
def table_full():
    before = on_file(room(1000), r"runs\.csv.*\.tmp$", events=("open",))
    refuses(command(*EXPERIMENT, "--out", "runs.csv", before=before, limit=110), "runs.csv", "kept")
    clean()
    works(command(*EXPERIMENT, "--out", "runs.csv", limit=110))


# No permission, and things that are not there

def early(*args, words=(), env=None, before=no_power, code=1) -> None:
    "Refused before the work: nothing is encoded."
    done = command(*args, env=dict(RANK_BERT_HOME=os.path.abspath("fresh")) | (env or {}), before=before)
    refuses(done, *words, code=code)
    must(not list(Path("fresh").rglob("*.safetensors")) if Path("fresh").exists() else True, "refused only after encoding")

def locked(name: str, mode: int = 0o555) -> str:
    Path(name).mkdir(exist_ok=True)
    os.chmod(name, mode)
    return name

@case("permission", "--out in a folder that may not be written, of train, classify, encode, experiment", "a sentence that names it, before the work")
def read_only_parent():
    place = locked("locked")
    early(*TRAIN, "--out", f"{place}/out", words=["locked", "permission"])
    early(*CLASSIFY, "--out", f"{place}/out", words=["locked", "permission"])
    early(*ENCODE, "--out", f"{place}/v.st", words=["locked", "permission"])
    early(*EXPERIMENT, "--out", f"{place}/runs.csv", words=["locked", "permission"])
    early("demo", "--out", f"{place}/out", "--max-documents", "20", "--backbone", "little", words=["locked", "permission"])

@case("permission", "--out in a folder that does not exist, of encode and experiment", "a sentence that names it, before the work")
def missing_parent():
    early(*ENCODE, "--out", "missing/v.st", words=["missing", "folder"])
    early(*EXPERIMENT, "--out", "missing/x.csv", words=["missing", "folder"])
    must(not Path("missing").exists(), "a folder was made")

@case("permission", "--folder of experiment may not be written", "a sentence that names it, before the work")
def sweeps_read_only():
    early(*EXPERIMENT[:-1], locked("locked") + "/kept", words=["locked"])

@case("permission", "the cache may not be written", "a sentence that names it and RANK_BERT_HOME")
def cache_read_only():
    home = os.path.abspath(locked("locked"))
    refuses(command(*ENCODE, "--out", "v.st", env=dict(RANK_BERT_HOME=home), before=no_power), "locked", "RANK_BERT_HOME")
    refuses(command(*ENCODE, "--out", "v.st", env=dict(RANK_BERT_HOME="/proc/nothing")), "/proc/nothing", "RANK_BERT_HOME")
    must(not Path("v.st").exists(), "v.st is there")

@case("permission", "the cache is read-only and a file of it is damaged", "a sentence, or the right vectors; no traceback")
def damaged_read_only():
    shard = next(p for p in Path("home").rglob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-8] + b"12345678")
    for folder in [p for p in Path("home").rglob("*") if p.is_dir()]: folder.chmod(0o555)
    done = command(*ENCODE, "--out", "v.st", before=no_power)
    if done.code: refuses(done, "home")
    else: must(Path("v.st").read_bytes() == Path("vectors.st").read_bytes(), "other vectors")
    works(command(*TRAIN, "--out", "out", env=dict(RANK_BERT_HOME="fresh")))

@case("permission", "data, texts and a saved folder that may not be read", "a sentence that names the file")
def unreadable():
    for name in ("shop/queries.jsonl", "lines.txt", "kinds.csv", "ranker/index.safetensors"): os.chmod(name, 0)
    refuses(command(*TRAIN, "--out", "out", before=no_power), "queries.jsonl")
    refuses(command(*ENCODE, "--out", "v.st", before=no_power), "lines.txt")
    refuses(command(*CLASSIFY, "--out", "out", before=no_power), "kinds.csv")
    refuses(command("search", "ranker", QUERY, before=no_power), "index.safetensors")

@case("permission", "the working folder may not be written", "search and predict work")
def read_only_here():
    os.chmod(".", 0o555)
    try:
        works(command("search", "ranker", QUERY, before=no_power))
        works(command("predict", "kinds", QUERY, before=no_power))
    finally: os.chmod(".", 0o755)

@case("permission", "the whole cache is deleted while train encodes, trains and saves", "the ranker of an undisturbed run, or a sentence")
def cache_deleted():
    def delete(): shutil.rmtree("fresh", ignore_errors=True)
    for hook in (on_batch(delete, 3), on_file(delete, "features", 6), on_step(delete, 2), on_file(delete, r"\.new/")):
        shutil.rmtree("out", ignore_errors=True)
        done = command(*TRAIN, "--out", "out", env=dict(RANK_BERT_HOME="fresh"), before=hook)
        if done.code: refuses(done, "fresh")
        else: same("out", "ranker")
        clean()

@case("permission", "files of the store are removed while another process reads it", "right vectors (A7)")
def shards_removed():
    from rank_bert.features import FeatureStore
    from rank_bert.models import get_encoder
    texts, encoder, store = Path("lines.txt").read_text().splitlines(), get_encoder("little"), FeatureStore("removed")
    wanted = FeatureStore("wanted").encode(texts, encoder, progress=False).tensor()
    def remove():
        for p in Path("removed").rglob("*.safetensors"): p.unlink()
    for n in (1, 2):
        store.encode(texts[:40], encoder, progress=False)
        on_batch(remove, n)()
        found = store.encode(texts[:40] + texts[60:], encoder, progress=False).tensor()
        must((found - wanted[list(range(40)) + list(range(60, len(texts)))]).abs().max() < 1e-5, "wrong rows")

@case("permission", "each file of the store is damaged: its header, its keys, a text in it, its end; or cut", "it is encoded again; the result is that of an undisturbed run")
def store_damaged():
    def at(place): return lambda b: b[:place] + bytes([b[place] ^ 64]) + b[place + 1:]
    for n, damage in enumerate((at(20), at(-4), lambda b: b[:-4], at(700), lambda b: b[:len(b)//2] + bytes(len(b) - len(b)//2))):
        home = f"home{n}"
        shutil.copytree("home", home)
        for p in Path(home).rglob("*.safetensors"): p.write_bytes(damage(p.read_bytes()))
        done = works(command(*ENCODE, "--out", "v.st", env=dict(RANK_BERT_HOME=home)))
        must("damaged" in done.said or n == 3, "no warning")  # a damaged key is one that is not found
        must(vectors_differ("v.st", "vectors.st") < 1e-5, "other vectors")
        must("damaged" not in works(command(*ENCODE, "--out", "v.st", env=dict(RANK_BERT_HOME=home))).said, "still damaged")
    for p in Path("home").rglob("*.safetensors"): p.write_bytes(at(20)(p.read_bytes()))
    works(command(*TRAIN, "--out", "out"), "damaged")
    same("out", "ranker")

def vectors_differ(one: str, two: str) -> float:
    "The largest difference between two files of vectors."
    from safetensors.torch import load_file
    return float((load_file(one)["vectors"] - load_file(two)["vectors"]).abs().max())


# Two and eight writers

def together(count: int, args: tuple, out: Callable, env=None) -> list[Done]:
    "Run a command several times at once."
    begun = [start(main_of((*args, "--out", out(i))), env=env) for i in range(count)]
    return [stop(*one, limit=200) for one in begun]

def writers(count: int) -> None:
    put("older", "out")
    for done in together(count, TRAIN, lambda i: "out", dict(RANK_BERT_HOME="fresh")): works(done)
    same("out", "ranker")
    clean()

for count in (2, 8):
    case("writers", f"{count} processes train to one folder, on one empty store", "all work; the folder is that of one", name=f"train-{count}",
         quick=count == 2, limit=300)(lambda count=count: writers(count))

@case("writers", "6 processes add and remove documents of one ranker at once, again and again, while others read it",
      "each change is there, or was refused with a sentence; readers see whole rankers", limit=300)
def documents_6():
    from rank_bert.rankers.training import load_ranker
    def read():
        for _ in range(20): must(len(load_ranker("ranker").documents) >= 20, "documents are lost")
    readers, added, removed = [start(read) for _ in range(2)], set(), set()
    for turn in range(4):
        tasks = [("--add", some_documents(f"a{turn}{i}.jsonl", [f"n{turn}{i}"]), f"n{turn}{i}") for i in range(5)]
        Path(f"r{turn}.txt").write_text(f"d{turn}\n")
        tasks.append(("--remove", f"r{turn}.txt", f"d{turn}"))
        begun = [start(main_of(("documents", "ranker", *task[:2]))) for task in tasks]
        done = [stop(*one) for one in begun]
        for (option, _, name), one in zip(tasks, done):
            if one.code == 0: (added if option == "--add" else removed).add(name)
            else: refuses(one, "was changed since it was read")
        must(any(one.code == 0 for one in done), "all were refused")
    for one in readers: works(stop(*one))
    wanted = ({f"d{i}" for i in range(24)} | added) - removed
    must({*load_ranker("ranker").documents.doc_id} == wanted, f"{wanted ^ {*load_ranker('ranker').documents.doc_id}}")
    clean()

@case("writers", "8 processes encode the same texts to one empty store", "all write the same vectors", quick=False, limit=300)
def encode_8():
    for done in together(8, ENCODE, lambda i: f"v{i}.st", dict(RANK_BERT_HOME="fresh")): works(done)
    must(all(Path(f"v{i}.st").read_bytes() == Path("vectors.st").read_bytes() for i in range(8)), "vectors differ")
    clean()

@case("writers", "two experiments in one folder of runs", "both give the table of one", quick=False, limit=500)
def experiments_2():
    begun = [start(main_of((*EXPERIMENT, "--out", f"runs{i}.csv"))) for i in (0, 1)]
    done = [works(stop(*one, limit=300)) for one in begun]
    must(done[0].out == done[1].out, "two tables")
    clean("kept")

@case("writers", "4 processes encode 40 texts one by one to one store, and one of them is killed again and again", "right vectors, few files")
def small_calls():
    from rank_bert.features import FeatureStore, encode
    from rank_bert.models import get_encoder
    texts, encoder = Path("lines.txt").read_text().splitlines()[:40], get_encoder("little")
    def calls():
        for t in texts: FeatureStore("small").encode([t], encoder, progress=False)
    begun = [start(calls) for _ in range(3)]
    for n in range(1, 30, 2): stop(*start(calls, before=on_file(signals(signal.SIGKILL), "small/", n=20*n)))
    for one in begun: works(stop(*one))
    store = FeatureStore("small")
    worst = max((store.encode([t], encoder, progress=False)[0] - encode([t], encoder, progress=False)[0]).abs().max() for t in texts)
    must(worst < 1e-5, f"wrong vectors: {worst}")
    must(store.computed == 0, f"{store.computed} texts were lost")
    must(store.spaces().files.sum() < 40, f"{store.spaces().files.sum()} files")

@case("writers", "8 threads encode through one store in 40 calls each", "right vectors, no error")
def threads_of_a_store():
    from rank_bert.features import FeatureStore, encode
    from rank_bert.models import get_encoder
    texts, encoder, store = Path("lines.txt").read_text().splitlines(), get_encoder("little"), FeatureStore("threads")
    wanted = encode(texts, encoder, progress=False)
    def call(n):
        rows = [(n*7 + i) % len(texts) for i in range(5)]
        found = store.encode([texts[r] for r in rows], encoder, progress=False).tensor()
        return float((found - wanted[rows]).abs().max())
    with ThreadPoolExecutor(8) as pool: must(max(pool.map(call, range(320))) < 1e-5, "wrong vectors")


# Where results go

def stays(name: str, *args, words=()) -> None:
    "Refused, and what stood there is as it was."
    before = tree(name) if Path(name).is_dir() else Path(name).read_bytes()
    refuses(command(*args), *words)
    must(before == (tree(name) if Path(name).is_dir() else Path(name).read_bytes()), f"{name} was changed")
    clean()

@case("out", "NOTES.txt in the ranker's folder, and train to it again", "refused, with the file's name; it stays")
def notes():
    Path("ranker/NOTES.txt").write_text("mine")
    stays("ranker", *TRAIN, "--out", "ranker", words=["NOTES.txt"])

@case("out", "thesis.tex beside a file called ranker.json", "refused; it stays")
def thesis():
    Path("work").mkdir()
    Path("work/ranker.json").write_text("{}")
    Path("work/thesis.tex").write_text("years")
    stays("work", *TRAIN, "--out", "work")
    Path("work/ranker.json").write_text('{"files": {"thesis.tex": "' + "0"*64 + '"}}')
    Path("work/more.tex").write_text("years")
    stays("work", *TRAIN, "--out", "work")

@case("out", "train --out ../out from within out, and --out out/../out", "the ranker is not lost: replaced, or refused with a sentence")
def through_itself():
    put("older", "out")
    done = command(*TRAIN[:1], os.path.abspath("shop"), *TRAIN[2:3], os.path.abspath("little"), *TRAIN[4:], "--out", "../out", before=lambda: os.chdir("out"))
    must("Traceback" not in done.said and done.code in (0, 1), done.said[-500:])
    must(len(tree("out")) == len(tree("older")), f"lost: {sorted(tree('out'))}")
    clean()
    works(command(*TRAIN, "--out", "out/../out"))
    same("out", "ranker")
    clean()

@case("out", "--out is the current folder, a file, a device, too long a name, an empty name", "a sentence, before the work")
def odd_places():
    early(*TRAIN, "--out", ".")
    early(*TRAIN, "--out", "kinds.csv", words=["kinds.csv"])
    early(*TRAIN, "--out", "/dev/null", words=["/dev/null"])
    early(*TRAIN, "--out", "x"*300, words=["long"])
    early(*ENCODE, "--out", "shop", words=["shop"])
    early(*ENCODE, "--out", "/dev/null", words=["/dev/null"])
    early(*ENCODE, "--out", "x"*300, words=["long"])
    early(*EXPERIMENT, "--out", "shop", words=["shop"])
    must(Path("/dev/null").is_char_device(), "a device was replaced")

@case("out", "a folder and its files that only the owner may read, saved again", "modes stay as they are")
def modes_stay():
    Path("ranker").chmod(0o700)
    for file in Path("ranker").iterdir(): file.chmod(0o600)
    Path("gone.txt").write_text(json.loads(Path("ranker/documents.jsonl").read_text().splitlines()[0])["doc_id"] + "\n")
    works(command("documents", "ranker", "--remove", "gone.txt"))
    seen = {oct(p.stat().st_mode & 0o777) for p in (Path("ranker"), *Path("ranker").iterdir())}
    must(seen == {"0o700", "0o600"}, seen)

@case("out", "--out is a link to an older ranker", "what it leads to is replaced; the link stays a link")
def link_to_a_ranker():
    put("older", "real")
    os.symlink("real", "link")
    works(command(*TRAIN, "--out", "link"))
    must(Path("link").is_symlink(), "the link was replaced")
    same("real", "ranker")

@case("out", "--out is a link that leads nowhere, or to itself", "a sentence, before the work")
def dangling():
    os.symlink("nowhere/at/all", "link")
    os.symlink("loop", "loop")
    for name in ("link", "loop"):
        early(*TRAIN, "--out", name, words=[name])
        early(*ENCODE, "--out", name, words=[name])
        must(Path(name).is_symlink(), "the link was replaced")

@case("out", "encode a.txt --out a.txt, also through a link, another path and a hard link", "refused; the texts stay")
def over_its_input():
    os.symlink("lines.txt", "link.txt")
    os.link("lines.txt", "hard.txt")
    for name in ("lines.txt", "link.txt", "shop/../lines.txt", "hard.txt", os.path.abspath("lines.txt")):
        stays("lines.txt", *ENCODE, "--out", name, words=[Path(name).name])

@case("out", "--out=~/x and data, folder and texts under ~", "the home folder is meant; nothing is called ~")
def tilde():
    env = dict(HOME=os.getcwd())
    works(command("train", "~/shop", *TRAIN[2:], "--out=~/out", env=env))
    must(not Path("~").exists() and Path("out/ranker.json").exists(), "a folder called ~")
    works(command("search", "~/out", QUERY, env=env))
    works(command("encode", "~/lines.txt", "--backbone", "~/little", "--out=~/v.st", env=env))
    must(Path("v.st").exists(), "v.st is elsewhere")

@case("out", "two runs with one seed, in processes with other hash seeds", "folders equal byte for byte (F13)", limit=200, quick=False)
def same_bytes():
    for n in ("1", "2"): works(real(*TRAIN, "--out", f"out{n}", env=dict(PYTHONHASHSEED=n)))
    same("out1", "out2")
    same("out1", "ranker")

# Saved folders: damaged, swapped, newer

def loader(kind: str) -> Callable:
    from rank_bert.tasks.classifiers import load_classifier
    from rank_bert.rankers.training import load_ranker
    from rank_bert.tasks.tagging import load_tagger
    return dict(ranker=load_ranker, kinds=load_classifier, tags=load_tagger)[kind]

def answers(kind: str, encoder=None):
    "What a saved folder answers, as JSON."
    model = loader(kind)(kind, encoder)
    if kind == "ranker": return model.search(QUERY).to_json()
    return model.predict([QUERY]).to_json() if kind == "kinds" else repr(model.predict(QUERY))

def each_file(kind: str, change: Callable) -> None:
    "Every file of a folder is changed in turn: a sentence that names it."
    folder, load = Path(kind), loader(kind)
    for name in sorted(tree(folder)):
        content = (folder/name).read_bytes()
        change(folder/name)
        raises(lambda: load(kind), Path(name).name)
        (folder/name).unlink(missing_ok=True)
        (folder/name).write_bytes(content)
    answers(kind)

def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content)//2] ^= 1
    path.write_bytes(content)

for kind in ("ranker", "kinds", "tags"):
    case("folders", f"one bit of each file of {kind!r} is flipped", "a sentence that names the file", name=f"{kind}-flipped")(lambda kind=kind: each_file(kind, flip))
    case("folders", f"each file of {kind!r} is cut in half", "a sentence that names the file", name=f"{kind}-cut")(
        lambda kind=kind: each_file(kind, lambda p: os.truncate(p, p.stat().st_size//2)))
    case("folders", f"each file of {kind!r} is missing", "a sentence that names the file", name=f"{kind}-missing")(lambda kind=kind: each_file(kind, Path.unlink))

def fields(about, at=()):
    "Paths of all values of a JSON."
    for key in about if isinstance(about, dict) else range(len(about)):
        yield (*at, key)
        if isinstance(about[key], (dict, list)): yield from fields(about[key], (*at, key))

def each_field(kind: str, change: Callable) -> None:
    "Every value of the JSON file is changed in turn, hashes refreshed: a sentence, or an answer; other settings may give another."
    from rank_bert.models import get_encoder
    mark, encoder = mark_of(Path(kind)), get_encoder("little")
    text = mark.read_text()
    for at in fields(json.loads(text)):
        if at[0] in ("files", "sha256") or at[:2] in (("about", "curve"),): continue
        for value in change:
            def put_in(about):
                for key in at[:-1]: about = about[key]
                if value is edit: del about[at[-1]]
                else: about[at[-1]] = value
            edit(kind, put_in)
            try: answers(kind, encoder)
            except (ValueError, OSError, TypeError) as e:
                must(type(e).__name__ not in ("UnicodeDecodeError",) and len(str(e)) > 15 and "object" not in str(e)[:12], f"{at} = {value!r:.30}: {type(e).__name__}: {e}")
                must(not isinstance(e, TypeError), f"{at} = {value!r:.30}: {type(e).__name__}: {e}")
            except Exception as e: raise Wrong(f"{at} = {value!r:.30}: {type(e).__name__}: {e}"[:600]) from e
            mark.write_text(text)

for kind in ("ranker", "kinds", "tags"):
    case("folders", f"each value of the JSON of {kind!r} is missing, null, a list, a text, an object, -1 or 10^12, hashes refreshed",
         "a ValueError or OSError in words, or an answer; nothing hangs", name=f"{kind}-fields", limit=300, quick=kind == "kinds")(
        lambda kind=kind: each_field(kind, (edit, None, [], "x", {}, -1, 10**12)))

@case("folders", "300 one-bit flips of ranker.json", "no traceback, and no other answer")
def bits_of_the_json():
    from rank_bert.models import get_encoder
    encoder, mark, rng = get_encoder("little"), Path("ranker/ranker.json"), random.Random(0)
    content, wanted = mark.read_bytes(), answers("ranker", encoder)
    for _ in range(300):
        changed = bytearray(content)
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
        mark.write_bytes(changed)
        try: found = answers("ranker", encoder)
        except (ValueError, OSError): continue
        except Exception as e: raise Wrong(f"{type(e).__name__}: {e}") from e
        must(found == wanted, "other answers")

@case("folders", "weights of tokens of a solved classifier: damaged, gone, of other labels, or more than there are", "a sentence; with refreshed hashes what fits is taken")
def bag_of_tokens():
    names = {"red": "warm", "blue": "cold", "green": "mild", "white": "cold", "amber": "warm"}
    rows = "text,label\n" + "".join(f"the {c} thing number {i},{label}\n" for i in range(60) for c, label in names.items())
    works(command("classify", written(rows, "rows.csv"), "--backbone", "little", "--out", "solved"))
    must(Path("solved/bag.safetensors").exists(), "no weights of tokens")
    ask = ("predict", "solved", "the amber thing", "--json")
    works(command(*ask))
    put("solved", "kept")
    for change in (lambda b: b[:-1] + bytes([b[-1] ^ 1]), lambda b: b[:100], lambda b: b""):
        Path("solved/bag.safetensors").write_bytes(change(Path("kept/bag.safetensors").read_bytes()))
        refuses(command(*ask), "bag.safetensors")
        seal("solved")
        done = command(*ask)
        if done.code: refuses(done, "solved")
    put("kept/bag.safetensors", "solved/bag.safetensors")
    tensors("solved/bag.safetensors", lambda found: found["known"].__setitem__(0, 10**9))
    refuses(command(*ask), "tokens that the encoder")
    Path("solved/bag.safetensors").unlink()
    refuses(command(*ask), "bag.safetensors")
    shutil.rmtree("solved")
    put("kept", "solved")
    edit("solved", lambda about: about.update(bag=10**9))
    refuses(command(*ask), "bag.safetensors")
    edit("solved", lambda about: about.pop("bag"))
    refuses(command(*ask), "both or none")

@case("folders", "a folder that a process of another machine had renamed aside before it died", "it is back after two seconds, and answers")
def aside_elsewhere():
    os.rename("ranker", ".ranker-abcdef-1-01234567.old")
    began = time.monotonic()
    works(ask())
    must(time.monotonic() - began < 60, "too late")
    must(Path("ranker/ranker.json").exists() and not list(Path().glob(".ranker-*")), sorted(map(str, Path().iterdir())))

@case("folders", "a folder of a newer format", "a sentence that says what to install")
def newer():
    edit("ranker", lambda a: a.update(format=99, rank_bert="9.0"))
    refuses(ask(), "newer", "pip install")
    edit("kinds", lambda a: a.update(format=99, rank_bert="9.0"))
    refuses(say(), "newer", "pip install")

@case("folders", "JSON files that are empty, no object, or nested 100,000 deep", "a sentence that names the file")
def odd_json():
    for text in ("", "[]", "null", "1", '"x"', "[" * 100_000, '{"a":' * 100_000, "{}", '{"format": 1}', '{"format": "1"}', '{"format": NaN}'):
        for folder, mark, run in (("ranker", "ranker.json", ask), ("kinds", "classifier.json", say)):
            Path(folder, mark).write_text(text)
            refuses(run(), mark)
    Path("little/config.json").write_text("[" * 100_000)
    refuses(command(*ENCODE, "--out", "v.st"), "little")

@case("folders", "the folders of a ranker, a classifier and a tagger are taken for one another", "a sentence that says what the folder is")
def mixed_up():
    refuses(command("search", "kinds", QUERY), "kinds")
    refuses(command("predict", "ranker", QUERY), "ranker")
    refuses(command("predict", "tags", QUERY), "tag")
    refuses(command("search", "little", QUERY), "little")
    refuses(command("search", "nothing", QUERY), "nothing")
    raises(lambda: loader("tags")("kinds"), "kinds")

@case("folders", "parts of another ranker, with fewer documents or another head, hashes refreshed", "a sentence; never a wrong row")
def other_parts():
    works(command(*[a if a != "shop" else "less" for a in TRAIN], "--out", "small", before=smaller))
    for name in ("index.safetensors", "documents.jsonl", "bm25.safetensors"):  # as many words as before cannot be told: hashes are no signature
        put("ranker", "mixed")
        shutil.copy(f"small/{name}", f"mixed/{name}")
        seal("mixed")
        done = ask("mixed")
        must(done.code, f"{name} of the other was taken")
        refuses(done, "mixed")
        shutil.rmtree("mixed")

def smaller() -> None:
    put("shop", "less")
    rows = Path("less/queries.jsonl").read_text().splitlines()
    documents = Path("less/documents.jsonl").read_text().splitlines()[:20]
    ids = {json.loads(d)["doc_id"] for d in documents}
    Path("less/documents.jsonl").write_text("\n".join(documents) + "\n")
    Path("less/queries.jsonl").write_text("\n".join(r for r in rows if json.loads(r)["doc_id"] in ids) + "\n")

@case("folders", "the encoder in the folder is another, hashes refreshed", "a sentence: it was trained on another")
def other_encoder():
    from rank_bert.models import save_encoder
    from rank_bert.read.testing import tiny_encoder
    save_encoder(tiny_encoder(seed=5), Path("ranker/encoder"))
    seal("ranker")
    refuses(ask(), "ranker")
    save_encoder(tiny_encoder(seed=5), Path("kinds/encoder"))
    seal("kinds")
    refuses(say(), "kinds")


# Saved folders: hostile

@case("folders", "names in `files` lead out of the folder: ../, absolute, /dev/zero", "a sentence; nothing outside is read, nothing hangs")
def paths_out():
    text = Path("ranker/ranker.json").read_text()
    Path("secret").write_text("secret")
    for name in ("../secret", "../../../../../../etc/passwd", os.path.abspath("secret"), "/etc/passwd", "/dev/zero", "encoder/../../secret", "..", ".", "", "\0", "a"*5000):
        about = json.loads(text)
        about["files"][name] = hashlib.sha256(b"secret").hexdigest()
        Path("ranker/ranker.json").write_text(json.dumps(about))
        seal("ranker") if name and "\0" not in name and len(name) < 999 and not name.startswith("/dev") else None
        refuses(command("search", "ranker", QUERY, limit=30), "ranker.json")

@case("folders", "`files` is empty, or lacks the index", "a sentence: the check cannot be switched off")
def no_files():
    edit("ranker", lambda a: a.update(files={}))
    refuses(ask(), "ranker")
    edit("kinds", lambda a: a["files"].pop("head.safetensors"))
    refuses(say(), "kinds")

@case("folders", "files of a saved folder are links: out of it, to /dev/zero, to a pipe", "a sentence, no hang", limit=200)
def links_out():
    for name in ("documents.jsonl", "index.safetensors", "ranker.json"):
        for target in ("/dev/zero", os.path.abspath(f"older/{name}"), "fifo"):
            put("ranker", "linked")
            Path("linked", name).unlink()
            if target == "fifo": os.mkfifo(f"linked/{name}")
            else: os.symlink(target, f"linked/{name}")
            refuses(command("search", "linked", QUERY, limit=20), name)
            shutil.rmtree("linked")

MARKER = "import pathlib\npathlib.Path({!r}).write_text('ran')\n"

def plant(folder: Path, model_type: str|None) -> Path:
    "Code in a model folder, and the file that it makes when it runs."
    marker = Path("marker").resolve()
    code = MARKER.format(str(marker)) + "from transformers import BertConfig, BertModel, BertTokenizerFast\nclass C(BertConfig):\n    model_type = 'evil'\nclass M(BertModel):\n    config_class = C\nclass T(BertTokenizerFast): pass\n"
    for name in ("evil.py", "tokenization_evil.py"): (folder/name).write_text(code)
    config = json.loads((folder/"config.json").read_text())
    config["auto_map"] = {"AutoConfig": "evil.C", "AutoModel": "evil.M", "AutoTokenizer": ["evil.T", "evil.T"]}
    if model_type: config["model_type"] = model_type
    (folder/"config.json").write_text(json.dumps(config))
    tokenizer = json.loads((folder/"tokenizer_config.json").read_text())
    tokenizer |= dict(auto_map={"AutoTokenizer": ["evil.T", "evil.T"]}, tokenizer_class="T")
    (folder/"tokenizer_config.json").write_text(json.dumps(tokenizer))
    return marker

def code_stays(folder: str, run: Callable, limit: float) -> None:
    for model_type in (None, "evil"):
        marker = plant(Path(folder), model_type)
        if folder != "little": seal(Path(folder).parent)
        for typed in ("y\n"*20, ""):
            began = time.monotonic()
            done = run(stdin=typed)
            must(not marker.exists(), "code of the folder ran")
            must(time.monotonic() - began < limit, f"it waited {time.monotonic() - began:.0f} s")
            must(done.code in (0, 1) and "Traceback" not in done.said, done.said[-600:])
        if model_type: refuses(done, folder.split("/")[0])

@case("folders", "code in the encoder of a saved ranker or classifier (`auto_map`, unknown `model_type`), with y on standard input", "it does not run, and nothing waits (F1)")
def code_in_a_saved_folder():
    code_stays("ranker/encoder", lambda stdin: command("search", "ranker", QUERY, stdin=stdin), 10)
    code_stays("kinds/encoder", lambda stdin: command("predict", "kinds", QUERY, stdin=stdin), 10)

@case("folders", "code in a folder given as --backbone, with y on standard input", "it does not run, and nothing waits (F1)")
def code_in_a_backbone():
    code_stays("little", lambda stdin: command(*ENCODE, "--out", "v.st", stdin=stdin, env=dict(RANK_BERT_HOME="fresh")), 10)

class Bomb:
    "Leaves a file when it is unpickled."
    def __init__(self, path): self.path = path
    def __reduce__(self): return Path.touch, (Path(self.path),)

@case("folders", "pickles in the place of weights: renamed to .safetensors, as pytorch_model.bin beside or instead", "nothing is unpickled; a sentence")
def pickles():
    import pickle
    bomb = pickle.dumps(Bomb(os.path.abspath("marker")))
    for name in ("ranker/index.safetensors", "ranker/head.safetensors", "ranker/bm25.safetensors", "ranker/encoder/model.safetensors"):
        put("ranker", "spare")
        Path(name).write_bytes(bomb)
        seal("ranker")
        refuses(ask(), str(Path(name).parent))
        shutil.rmtree("ranker")
        os.rename("spare", "ranker")
    Path("little/pytorch_model.bin").write_bytes(bomb)
    works(command(*ENCODE, "--out", "v.st"))
    Path("little/model.safetensors").unlink()
    refuses(command(*ENCODE, "--out", "v2.st"), "little")
    must(not Path("marker").exists(), "a pickle was read")

@case("folders", "templates and odd settings in a tokenizer's configuration", "no code of theirs runs; an answer, or a sentence")
def templates():
    evil = "{{ cycler.__init__.__globals__.os.system('touch " + os.path.abspath("marker") + "') }}"
    path = Path("ranker/encoder/tokenizer_config.json")
    config = json.loads(path.read_text())
    for change in (dict(chat_template=evil), dict(chat_template=[dict(name="default", template=evil)]), dict(tokenizer_class="os.system"),
                   dict(model_max_length="x"), dict(added_tokens_decoder={"9999999": {"content": "x"}}), dict(extra_special_tokens={"a": {}})):
        path.write_text(json.dumps(config | change))
        seal("ranker")
        done = ask()
        must(not Path("marker").exists(), "a template ran")
        if done.code: refuses(done)

@case("folders", "`sizes` and changes of an encoder name attributes that are none of theirs (apply_changes)", "a sentence (F8)")
def attributes():
    path = Path("ranker/encoder/config.json")
    config = json.loads(path.read_text())
    from rank_bert import models
    for changes in ({"sizes": {"layer.0": {"__class__": 1}}}, {"sizes": {"encoder.layer.0": {"forward": 1}}}, {"factors": {"x": 10**9}}, {"sizes": [1]}, [], "x", {"nothing": 1},
                    {"sizes": {"encoder.layer.0.attention.self": {"num_attention_heads": 0}}}):
        path.write_text(json.dumps(config | {models._CHANGES: changes}))
        seal("ranker")
        refuses(ask())

def broken_numbers(file: str, key: str, value: float) -> None:
    def change(t): t[key].reshape(-1)[0] = value
    tensors(file, change)

@case("folders", "NaN or infinity in head, index, fusion and the encoder, hashes refreshed", "a sentence that names the file; no ranking of nan (F9)", limit=200)
def not_a_number():
    from safetensors.numpy import load_file
    for value in (float("nan"), float("inf")):
        for folder, name, run in (("ranker", "head.safetensors", ask), ("ranker", "index.safetensors", ask),
                                  ("kinds", "head.safetensors", say), ("ranker", "encoder/model.safetensors", ask)):
            put(folder, "spare")
            for key in [k for k, v in load_file(f"{folder}/{name}").items() if v.dtype.kind == "f"][:1]:
                if "/" in name:
                    from safetensors.numpy import save_file
                    found = {k: v.copy() for k, v in load_file(f"{folder}/{name}").items()}
                    found[key].reshape(-1)[0] = value
                    save_file(found, f"{folder}/{name}", metadata=dict(format="pt"))
                    seal(folder)
                else: broken_numbers(f"{folder}/{name}", key, value)
                refuses(run(), folder)
            shutil.rmtree(folder)
            os.rename("spare", folder)
    for value in ("NaN", "1e999", "Infinity", "null"):
        put("ranker", "spare")
        text = Path("spare/ranker.json").read_text()
        Path("spare/ranker.json").write_text(re.sub(r'("weight": )[-\d.e]+', rf"\g<1>{value}", text))
        with contextlib.suppress(Exception): seal("spare")
        refuses(ask("spare"), "ranker.json")
        shutil.rmtree("spare")

@case("folders", "arrays of another shape or type, missing or too many, hashes refreshed", "a sentence that names the file", limit=200, quick=False)
def shapes():
    import numpy as np
    def wide(k): return lambda t: t.update({k: np.concatenate([t[k], t[k]], -1)})
    changes = [("index.safetensors", lambda t: t.update(passages=t["passages"][:, :-1].copy())), ("index.safetensors", lambda t: t.update(passages=t["passages"].astype("f8"))),
               ("index.safetensors", lambda t: t.update(passages=t["passages"][:-1].copy())), ("index.safetensors", lambda t: t.update(owner=t["owner"] + 1000)),
               ("index.safetensors", lambda t: t.update(owner=t["owner"] - 1)), ("index.safetensors", lambda t: t.update(owner=t["owner"].astype("f4"))),
               ("index.safetensors", lambda t: t.update(owner=t["owner"][::-1].copy())), ("index.safetensors", lambda t: t.pop("owner")),
               ("index.safetensors", lambda t: t.update(passages=t["passages"].astype("i4"))), ("index.safetensors", lambda t: t.update(passages=t["passages"][:0].copy(), owner=t["owner"][:0].copy())),
               ("head.safetensors", lambda t: t.pop(next(iter(t)))), ("head.safetensors", lambda t: t.update(extra=np.zeros(3, "f4"))),
               ("head.safetensors", lambda t: t.update({k: v[..., :1].copy() for k, v in t.items()}))]
    for name, change in changes:
        put("ranker", "spare")
        tensors(f"spare/{name}", change)
        refuses(ask("spare"), "spare")
        shutil.rmtree("spare")

@case("folders", "a safetensors file whose header says 2^62 bytes, and sizes of 10^12 in ranker.json", "a sentence; no memory is taken", limit=150)
def huge():
    for header in ((2**62).to_bytes(8, "little") + b"{}", (100).to_bytes(8, "little") + b'{"passages":{"dtype":"F32","shape":[1000000000000,384],"data_offsets":[0,4]}}'.ljust(100)):
        put("ranker", "spare")
        Path("spare/index.safetensors").write_bytes(header)
        seal("spare")
        refuses(ask("spare"), "index.safetensors")
        shutil.rmtree("spare")
    config = json.loads(Path("ranker/encoder/config.json").read_text())
    for field in ("vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings"):
        put("ranker", "spare")
        Path("spare/encoder/config.json").write_text(json.dumps(config | {field: 10**12}))
        seal("spare")
        refuses(command("search", "spare", QUERY, limit=40), "spare")
        shutil.rmtree("spare")

def bm25(change: Callable) -> None:
    put("ranker", "spare")
    tensors("spare/bm25.safetensors", change)
    asked = json.loads(Path("shop/queries.jsonl").read_text().splitlines()[0])["text"]  # its words are in the index: documents and weights are checked when they are read
    for options in ((), ("--mode", "bm25")): refuses(command("search", "spare", asked, "--json", *options), "bm25")
    shutil.rmtree("spare")

@case("folders", "BM25 with columns beyond the documents, or below 0", "a sentence; no crash (F2)")
def bm25_columns():
    for value in (10**6, -1, 2**31 - 1, -2**31): bm25(lambda t: t["indices"].__setitem__(slice(None), value))

@case("folders", "BM25 with weights that are NaN or infinity", "a sentence; no ranking of nan (F9)")
def bm25_weights():
    for value in (float("nan"), float("inf")): bm25(lambda t: t["data"].__setitem__(slice(None), value))

@case("folders", "BM25 with offsets beyond the arrays, decreasing, or too few", "a sentence; no crash (F2)")
def bm25_offsets():
    bm25(lambda t: t["indptr"].__setitem__(slice(1, None), 10**6))
    bm25(lambda t: t.update(indptr=t["indptr"][::-1].copy()))
    bm25(lambda t: t.update(indptr=t["indptr"][:5].copy()))
    bm25(lambda t: t["indptr"].__setitem__(3, 0))
    bm25(lambda t: t["indptr"].__setitem__(0, -5))

@case("folders", "BM25 with fewer columns or rows than postings, other types, other counts", "a sentence; no crash (F2)")
def bm25_shape():
    for shape in ((1, 1), (0, 0), (-1, 5), (10**12, 10**12), (5,)):
        bm25(lambda t: t.update(shape=__import__("numpy").array(shape, t["shape"].dtype)))
    for key, kind in (("data", "i4"), ("indices", "f4"), ("indptr", "f8"), ("shape", "f4")): bm25(lambda t: t.update({key: t[key].astype(kind)}))
    bm25(lambda t: t.update(indices=t["indices"][:-3].copy()))
    bm25(lambda t: t.pop("data"))

@case("folders", "BM25 with keys in another order, equal, too few or signed", "other scores or a sentence; no crash (F2)")
def bm25_keys():
    for change in (lambda t: t.update(keys=t["keys"][::-1].copy()), lambda t: t["keys"].__setitem__(slice(None), t["keys"][0])):
        put("ranker", "spare")
        tensors("spare/bm25.safetensors", change)
        done = ask("spare", "--mode", "bm25")
        if done.code: refuses(done, "bm25")
        shutil.rmtree("spare")
    bm25(lambda t: t.update(keys=t["keys"][:-1].copy()))
    bm25(lambda t: t.update(keys=t["keys"].astype("i8")))

@case("folders", "bm25.json: ngrams of 10^9, other types, of a newer and of an earlier version", "a sentence, or for an earlier version the index of the documents; no crash, no hang (F2)")
def bm25_words():
    about = json.loads(Path("ranker/bm25.json").read_text())
    def damaged(change):
        Path("spare/bm25.json").write_text(json.dumps(about | change))
        seal("spare")
        done = command("search", "spare", QUERY, limit=30)
        must(done.code, f"taken: {change}")
        refuses(done, "bm25")
    put("ranker", "spare")
    for change in (dict(ngrams=10**9), dict(ngrams=0), dict(ngrams="2"), dict(stopwords=5), dict(stopwords="klingon"), dict(version=9), dict(version=None),
                   dict(k1="1"), dict(k1=-1), dict(b=7), dict(min_df=0), dict(min_df=1.5), dict(k1=None)): damaged(change)
    tensors("spare/bm25.safetensors", lambda t: [t.pop(name) for name in ("keys", "lengths")])
    damaged({})
    Path("spare/bm25.json").write_text(json.dumps(about | dict(version=2)))  # of an earlier version: made anew from the documents
    seal("spare")
    works(command("search", "spare", QUERY))

@case("folders", "documents.jsonl with rows that are no objects, without text, with another type, hashes refreshed", "a sentence that names file and line")
def odd_documents():
    lines = Path("ranker/documents.jsonl").read_text().splitlines()
    for line in ("5", "[]", "null", '"x"', "{", "{}", '{"doc_id": 1, "title": "", "text": "a"}', '{"doc_id": "a", "title": "", "text": 5}', '{"doc_id": "a", "title": "", "text": null}', lines[0], "["*100_000):
        Path("ranker/documents.jsonl").write_text("\n".join([*lines[:4], line, *lines[5:]]) + "\n")
        seal("ranker")
        refuses(ask(), "documents.jsonl")

@case("folders", "labels of a classifier: too few, too many, numbers, none, hashes refreshed", "a sentence")
def odd_labels():
    for labels in ([], ["a"], ["a", "b", "c"], [1, 2], "ab", {"a": 1}, [None, None], ["a", "a"]):
        put("kinds", "spare")
        edit("spare", lambda a: a.update(labels=labels))
        refuses(say("spare"), "spare")
        shutil.rmtree("spare")

# Data files

ROWS = [(f"how do I find {w} in {v}", f"the {w} of {v} is kept in a place called {w}{v}") for w in ("apples", "boats", "coats", "drums", "eggs") for v in ("Rome", "Oslo", "Lima", "Pune")]

def pairs(rows=ROWS, separator: str = ",", head: tuple = ("question", "answer"), end: str = "\n") -> str:
    return end.join(separator.join(f'"{v}"' for v in row) for row in [head, *rows]) + end

def written(content: str|bytes, name: str = "pairs.csv") -> str:
    Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name

def train_on(name: str, out: str, *options) -> Done:
    return command("train", name, "--backbone", "little", "--epochs", "1", "--out", out, *options)

def as_usual(content: bytes, name: str = "pairs.csv") -> None:
    "Data in another form give the ranker of the usual form."
    works(train_on(written(pairs()), "usual"))
    works(train_on(written(content, name), "other"))
    must(Path("usual/documents.jsonl").read_bytes() == Path("other/documents.jsonl").read_bytes(), Path("other/documents.jsonl").read_text()[:300])

def not_taken(content: str|bytes, *words: str, name: str = "pairs.csv", options=()) -> None:
    refuses(train_on(written(content, name), "out", *options), name, *words)
    must(not Path("out").exists(), "out is there")

@case("data", "a byte order mark before CSV and JSONL", "as without it")
def byte_order_mark():
    as_usual(b"\xef\xbb\xbf" + pairs().encode())
    lines = "".join(json.dumps(dict(question=q, answer=a)) + "\n" for q, a in ROWS)
    works(train_on(written(b"\xef\xbb\xbf" + lines.encode(), "pairs.jsonl"), "lines"))
    works(command("encode", written(b"\xef\xbb\xbfa text\n", "bom.txt"), "--backbone", "little", "--out", "v.st"))

@case("data", "lines that end in CR LF", "as with LF")
def crlf(): as_usual(pairs(end="\r\n").encode())

@case("data", "gzip", "as without it, or a sentence that names the file")
def gz():
    done = train_on(written(gzip.compress(pairs().encode()), "pairs.csv.gz"), "out")
    if done.code: refuses(done, "pairs.csv.gz")

@case("data", "UTF-16 and Latin-1", "a sentence that names file and encoding")
def encodings():
    not_taken(pairs().encode("utf-16"), "utf-8")
    not_taken(pairs([("où est la clé", "à côté de la boîte"), *ROWS]).encode("latin-1"), "utf-8")
    refuses(command("encode", written("clé\n".encode("latin-1"), "t.txt"), "--backbone", "little", "--out", "v.st"), "t.txt", "utf-8")
    refuses(command("classify", written("text,label\nclé,a\n".encode("latin-1"), "t.csv"), "--backbone", "little", "--out", "o"), "t.csv", "utf-8")

@case("data", "NUL characters in texts", "taken, or a sentence that names the file; never cut")
def nul():
    done = train_on(written(pairs([("wh\0ere", "under\0 the bed"), *ROWS])), "out")
    if done.code: refuses(done, "pairs.csv")
    else: must("the bed" in Path("out/documents.jsonl").read_text(), "cut at NUL")

@case("data", "half a surrogate pair in a text and in a label of JSONL", "taken as U+FFFD or refused with file and line, before training")
def surrogates():
    lines = "".join(json.dumps(dict(question=q + "\ud800", answer=a + "\udfff")) + "\n" for q, a in ROWS)
    done = train_on(written(lines, "pairs.jsonl"), "out")
    if done.code: refuses(done, "pairs.jsonl")
    rows = [dict(text=f"a text about {i}", label="x\ud800" if i % 2 else "y") for i in range(60)]
    done = command("classify", written("".join(json.dumps(r) + "\n" for r in rows), "rows.jsonl"), "--backbone", "little", "--epochs", "1", "--out", "out2")
    if done.code: refuses(done, "rows.jsonl")
    else: works(command("predict", "out2", "a text", "--json"))

@case("data", "half a surrogate pair in the name of a column; a column that is there twice; documents with the columns 5 and '5'", "a sentence that names the column, and nothing is written")
def odd_names():
    rows = "".join(json.dumps({"text": f"a text about {i}", "label": "xy"[i % 2], "k\ud800": i}) + "\n" for i in range(60))
    refuses(command("classify", written(rows, "rows.jsonl"), "--backbone", "little", "--out", "out"), "is no valid text: rename it")
    twice = "text,label,text\n" + "".join(f"a text about {i},{'xy'[i % 2]},b\n" for i in range(60))
    refuses(command("classify", written(twice, "twice.csv"), "--backbone", "little", "--out", "out"), "names several columns")
    import pandas as pd
    from rank_bert.rankers.training import load_ranker
    from rank_bert.tables import DataError
    new = pd.DataFrame([dict(doc_id="new", text="a text")])
    new[5], new["5"] = 1, 2
    try: load_ranker("ranker").add(new)
    except DataError as e: must("names several columns" in str(e), e)
    else: raise Wrong("one of two columns is lost")
    must(not Path("out").exists(), "something was written")

@case("data", "a line of 10 MB", "taken: cut to tokens, counted; or a sentence", limit=200)
def long_line():
    text = "where is the answer " * 500_000
    works(command("encode", written(text + "\nshort\n", "long.txt"), "--backbone", "little", "--out", "v.st", limit=150))
    done = train_on(written(pairs([("a long one", text), *ROWS])), "out", "--passages", "truncate")
    if done.code: refuses(done, "pairs.csv")

@case("data", "a gzip that is cut, is none, or unpacks to 8 GB", "a sentence that names the file; memory stays small", limit=200)
def gzips():
    whole = gzip.compress(pairs().encode())
    not_taken(whole[:-20], name="pairs.csv.gz")
    not_taken(b"no gzip at all", name="pairs.csv.gz")
    one = gzip.compress(b"0" * 2**24)
    Path("bomb.jsonl.gz").write_bytes(one * 512)
    def little_memory(): resource.setrlimit(resource.RLIMIT_AS, (24 * 2**30,) * 2)
    refuses(command("train", "bomb.jsonl.gz", "--backbone", "little", "--out", "out", before=little_memory, limit=150), "bomb.jsonl.gz")

@case("data", "a pipe, /dev/zero, a ZIP archive, gzip or Parquet called .csv", "a sentence that says what it is; nothing hangs", limit=60)
def not_plain():
    os.mkfifo("pipe.csv")
    for path in ("pipe.csv", "/dev/zero"):
        for args in (("train", path), ("classify", path)): refuses(command(*args, "--backbone", "little", "--out", "out", limit=30), "no plain file")
    for content, says in {b"PK\3\4": "zip", gzip.compress(pairs().encode()): ".gz", b"PAR1": ".parquet"}.items():
        refuses(train_on(written(content), "out"), "pairs.csv", says)

@case("data", "a table of 100,000 columns", "refused in seconds, with the limit", limit=30)
def wide():
    head, row = ("," + ",".join(f"c{i}" for i in range(100_000)), "," + ",".join(["1"] * 100_000))
    refuses(train_on(written("question,answer" + head + "\n" + "".join(f"{q},{a}{row}\n" for q, a in ROWS[:20])), "out"), "1,000 is the limit")

@case("data", "numbers of JSON that are not finite, and scores that are all equal", "a sentence that names line or value, before training")
def odd_numbers():
    rows = "".join(json.dumps(dict(text=f"a text about {i}", label=i % 5)) + "\n" for i in range(60))
    for number in ("1e400", "-Infinity"):
        refuses(command("classify", written(rows + f'{{"text": "a", "label": {number}}}\n', "rows.jsonl"), "--backbone", "little", "--out", "o"), "line 61", number.lower())
    equal = "text,score\n" + "".join(f"a text about {i},2.5\n" for i in range(60))
    refuses(command("classify", written(equal, "rows.csv"), "--kind", "score", "--backbone", "little", "--out", "o"), "2.5", "nothing to learn")
    must(not Path("o").exists(), "a folder was written")

@case("data", "Parquet that is cut, is none, or is empty", "a sentence that names the file")
def parquet():
    import pandas as pd
    pd.DataFrame(ROWS, columns=["question", "answer"]).to_parquet("pairs.parquet")
    works(train_on("pairs.parquet", "usual"))
    whole = Path("pairs.parquet").read_bytes()
    for content in (whole[:-30], whole[:len(whole)//2], b"PAR1", b"", b"text"): not_taken(content, name="pairs.parquet")
    pd.DataFrame(dict(question=[], answer=[])).to_parquet("pairs.parquet")
    refuses(train_on("pairs.parquet", "out"), "pairs.parquet")

@case("data", "semicolons or tabs in a .csv", "taken, or a sentence that speaks of separators")
def separators():
    for separator in ";\t":
        done = train_on(written(pairs(separator=separator)), "out")
        if done.code: refuses(done, "pairs.csv", "separat")
        shutil.rmtree("out", ignore_errors=True)

@case("data", "two columns of one name", "a sentence that names the column (F14)")
def twin_columns():
    not_taken(pairs([(q, a, "x") for q, a in ROWS], head=("question", "answer", "answer")), "answer")
    refuses(command("classify", written('text,label,label\n' + "a,b,c\n"*40, "twin.csv"), "--backbone", "little", "--out", "o"), "twin.csv", "label")

@case("data", "rows with too many or too few fields, a quote that never closes", "a sentence that names file and line")
def ragged():
    not_taken('question,answer\n"a","b","c"\n"d","e"\n')
    not_taken(pairs()[:-4])
    not_taken('question,answer\n"a","b"\n"c\n')

@case("data", "an empty file, only a head, a blank file, no such file, a folder without data", "a sentence that names it")
def empty():
    for content in ("", "question,answer\n", "\n\n\n"): not_taken(content)
    for name in ("e.jsonl", "e.tsv"): refuses(train_on(written("", name), "out"), name)
    refuses(train_on("nothing.csv", "out"), "nothing.csv")
    Path("void").mkdir()
    refuses(train_on("void", "out"), "void")
    refuses(command("encode", written("", "e.txt"), "--backbone", "little", "--out", "v.st"), "e.txt")
    refuses(command("encode", "void", "--backbone", "little", "--out", "v.st"), "void")
    refuses(command("encode", "/dev/null", "--backbone", "little", "--out", "v.st"), "dev/null")

@case("data", "JSONL with a broken line, a line that is no object, nested 100,000 deep", "a sentence that names file and line")
def broken_lines():
    good = [json.dumps(dict(question=q, answer=a)) for q, a in ROWS]
    for line in ('{"question": ', "5", "[1]", '{"question": "a", "answer": ' + "["*100_000):
        not_taken("\n".join([*good[:6], line, *good[6:]]), "line 7", name="pairs.jsonl")

@case("data", "a text that is null or empty in some rows", "they are left out and counted, or a sentence with the line")
def null_texts():
    good = [json.dumps(dict(question=q, answer=a)) for q, a in ROWS]
    for value in ("null", '""', '"  "'):
        done = train_on(written("\n".join([*good, '{"question": "who?", "answer": ' + value + "}"]), "pairs.jsonl"), "out")
        if done.code: refuses(done, "pairs.jsonl", "21")
        else: must("who?" in done.said or "1" in done.said, done.said)
        shutil.rmtree("out", ignore_errors=True)

def shop(change: Callable) -> str:
    "The data of `shop` with changed rows of documents and queries."
    shutil.rmtree("changed", ignore_errors=True)
    Path("changed").mkdir()
    both = [[json.loads(r) for r in Path(f"shop/{n}.jsonl").read_text().splitlines()] for n in ("documents", "queries")]
    change(*both)
    for n, rows in zip(("documents", "queries"), both): Path(f"changed/{n}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return "changed"

def train_shop(change: Callable) -> Done: return command("train", shop(change), *TRAIN[2:], "--out", "out")

@case("data", "an id twice, a missing id, an id that no document has", "a sentence that names the id or the line, or a count of what is not used")
def ids():
    refuses(train_shop(lambda d, q: d[3].update(doc_id=d[2]["doc_id"])), d_name := "documents.jsonl", "d2")
    refuses(train_shop(lambda d, q: d[3].pop("doc_id")), d_name)
    refuses(train_shop(lambda d, q: d[3].update(doc_id=None)), d_name)
    refuses(train_shop(lambda d, q: q[3].update(query_id=q[2]["query_id"])), "queries.jsonl", q_of(2))
    done = train_shop(lambda d, q: q[3].update(doc_id="nobody"))
    if done.code: refuses(done, "nobody")

def q_of(row: int) -> str: return json.loads(Path("shop/queries.jsonl").read_text().splitlines()[row])["query_id"]

@case("data", "ids that are numbers, with leading zeros, beyond 2^53", "they match, and are shown as they are")
def numeric_ids():
    def numbered(d, q, make):
        names = {r["doc_id"]: make(i) for i, r in enumerate(d)}
        for r in [*d, *q]: r["doc_id"] = names[r["doc_id"]]
    for make in (lambda i: i, lambda i: f"{i:05}", lambda i: 12345678901234567 + i, lambda i: str(12345678901234567 + i)):
        shutil.rmtree("out", ignore_errors=True)
        works(train_shop(lambda d, q: numbered(d, q, make)))
        found = [json.loads(r)["doc_id"] for r in Path("out/documents.jsonl").read_text().splitlines()]
        must(found == [str(make(i)) for i in range(24)], found[:3])

@case("data", "evaluate on next month's file: the same answers in another order, no ids (A1)", "documents are matched by text: the same figures")
def another_order():
    rows = [(q, a) for q, a in ROWS]
    works(train_on(written(pairs(rows)), "out"))
    one = works(command("evaluate", "out", "pairs.csv", "--json", "--split", "train"))
    written(pairs(rows[::-1]), "next.csv")
    for part in ("train", "valid", "test"):
        done = command("evaluate", "out", "next.csv", "--json", "--split", part)
        if done.code: continue
        scores = [r for r in json.loads(done.out) if r["ranker"] == "BM25" and r["queries"] == "all" and r["metric"] == "MRR"]
        must(scores and scores[0]["value"] > .9, done.out[:500])
    must("BM25" in one.out, one.out)

@case("data", "labels 007 and 7, 01 and 1, 1.10 and 1.1", "they stay what they are (A9)")
def labels_as_text():
    for values in (("007", "7"), ("01", "1"), ("1.10", "1.1"), ("12345678901234567", "12345678901234568"), ("1e3", "1000"), ("True", "true")):
        written("text,label\n" + "".join(f"a text about thing {i},{values[i % 2]}\n" for i in range(60)), "odd.csv")
        works(command("classify", "odd.csv", "--backbone", "little", "--epochs", "1", "--out", "odd"))
        found = json.loads(Path("odd/classifier.json").read_text())["labels"]
        must(sorted(found) == sorted(values), f"{found} instead of {values}")
        shutil.rmtree("odd")

@case("data", "integer labels above 2^53 in JSONL and Parquet", "they are two labels (F5)")
def large_labels():
    import pandas as pd
    values = [12345678901234567 + i % 2 for i in range(60)]
    frame = pd.DataFrame(dict(text=[f"a text about thing {i}" for i in range(60)], label=values))
    frame.to_parquet("big.parquet")
    frame.to_json("big.jsonl", orient="records", lines=True)
    for name in ("big.parquet", "big.jsonl"):
        works(command("classify", name, "--backbone", "little", "--epochs", "1", "--out", "big", "--kind", "class"))
        must(json.loads(Path("big/classifier.json").read_text())["labels"] == ["12345678901234567", "12345678901234568"], Path("big/classifier.json").read_text()[:300])
        shutil.rmtree("big")

@case("data", "one label, an empty label, a label for each row, no label column", "a sentence that names file and label, or classes as they are")
def odd_label_columns():
    def classify(rows, *options): return command("classify", written("text,label\n" + "".join(rows), "odd.csv"), "--backbone", "little", "--epochs", "1", "--out", "odd", *options)
    refuses(classify([f"text {i},a\n" for i in range(40)]), "odd.csv")
    refuses(classify([f"text {i},{'a' if i % 3 else ''}\n" for i in range(40)]), "odd.csv")
    refuses(classify([f"text {i},a\n" for i in range(40)], "--label", "lable"), "lable")
    done = classify([f"text {i},label {i}\n" for i in range(40)])
    if done.code: refuses(done, "odd.csv")

@case("data", "10,000 labels, measured in Python within 1.5 GB (F14)", "memory grows with rows, not with labels squared", limit=200)
def many_labels():
    import numpy as np
    from rank_bert.tasks import classifiers
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rng = np.random.default_rng(0)
    out = rng.random((500, 10_000), dtype=np.float32)
    classifiers._shares(out, rng.integers(0, 10_000, 500))
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**20
    must(used < 1, f"{used:.1f} GB")


# Queries, and texts on the terminal

@case("queries", "an empty query, only blanks, only a zero-width space", "a sentence; nothing is printed")
def blank():
    for text in ("", " ", "\n\t ", "\u3000"):
        refuses(command("search", "ranker", text), "empty")
        refuses(command("predict", "kinds", text), "empty")

@case("queries", "a query of 1 MB", "an answer in seconds")
def megabyte():
    found = works(command("search", "ranker", "where is the answer " * 50_000, "--json", limit=60))
    must(len(json.loads(found.out)) == 5, found.out[:200])
    works(command("predict", "kinds", "where is the answer " * 50_000, limit=60))

@case("queries", "emoji, Chinese, Arabic, only stop words, only punctuation, half a surrogate pair", "an answer, or in BM25 none; never nan", quick=False, limit=400)
def scripts():
    for text in ("🙂🙂", "你好，世界", "مرحبا بالعالم", "the of and", "?!", "\ud800 half", "C++", "R", "5G"):
        for mode in ("hybrid", "dense", "cosine", "bm25"):
            found = json.loads(works(command("search", "ranker", text, "--json", "--mode", mode)).out)
            must(all(isinstance(r["score"], float) for r in found), found)
        works(command("search", "ranker", text))
        works(command("predict", "kinds", text))

@case("queries", "words with characters that are stops in other tools: NUL, quotes, brackets, a dash first", "an answer", quick=False)
def punctuation():
    for text in ("a\0b", "'; DROP TABLE", "%s %d {0} {{", "\\x00\\", "<b>x</b>"): works(command("search", "ranker", text))
    works(command("search", "ranker", "--", "-k 5"))

CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029]")

@case("queries", "documents, titles and ids that hold escape sequences, found by search", "none reaches the terminal; JSON escapes them (F8)", quick=False)
def escape_sequences():
    evil = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e\u2028"
    def change(d, q):
        for i, r in enumerate(d): r.update(text=r["text"] + evil, title=f"{evil} title {i}\nline", doc_id=f"{evil}{i}")
        for r in q: r.update(doc_id=evil + r["doc_id"][1:], type=evil + r["type"], text=r["text"] + evil)
    done = works(train_shop(change))
    must(not CONTROL.search(done.out + done.said), repr(CONTROL.search(done.out + done.said)))
    for args in (("search", "out", QUERY + evil), ("search", "out", QUERY + evil, "--json"), ("evaluate", "out", "changed"), ("evaluate", "out", "changed", "--json")):
        done = works(command(*args))
        must(not CONTROL.search(done.out + done.said), f"{args[0]}: {CONTROL.search(done.out + done.said)!r}")
    found = json.loads(command("search", "out", QUERY, "--json").out)
    must(found[0]["passage"].count("\x1b") or found[0]["title"].count("\x1b"), "JSON is not what the document holds")

@case("queries", "labels and texts that hold escape sequences, in predict and classify, also in errors", "none reaches the terminal (F8)", quick=False)
def escape_in_labels():
    evil = "\x1b[2J\x9b31m\u202e"
    rows = [dict(text=f"a text about {i}", label=evil + "xy"[i % 2]) for i in range(60)]
    written("".join(json.dumps(r) + "\n" for r in rows), "rows.jsonl")
    for args in (("classify", "rows.jsonl", "--backbone", "little", "--epochs", "1", "--out", "out"), ("predict", "out", "a" + evil), ("predict", "out", "a" + evil, "--json"),
                 ("predict", "out" + evil, "a"), ("train", "x" + evil, "--out", "o"), ("search", "ranker", "a", "--mode", evil)):
        done = command(*args)
        must("Traceback" not in done.said and not CONTROL.search(done.out + done.said), f"{args[0]}: {(done.out + done.said)[-300:]!r}")

@case("queries", "more documents than there are, none, a mode that is none", "all of them, or a sentence")
def how_many():
    must(len(json.loads(works(ask("ranker", "-k", "1000000")).out)) == 24, "not all")
    refuses(ask("ranker", "-k", "0"), code=2)
    refuses(ask("ranker", "-k", "-1"), code=2)
    refuses(ask("ranker", "--mode", "bm52"), "bm52", "bm25")

@case("queries", "one str where a list belongs, a table, numbers, None, in Python", "TypeError that names the argument (A2)")
def wrong_texts():
    import pandas as pd
    from rank_bert.features import FeatureStore, encode
    from rank_bert.models import get_encoder
    encoder, ranker, kinds = get_encoder("little"), loader("ranker")("ranker"), loader("kinds")("kinds")
    for texts in ("hello world", pd.DataFrame(dict(text=["a"])), {"a": 1}, {"a"}, 5, None, [5], [None], [b"x"]):
        for run in (lambda: encode(texts, encoder), lambda: FeatureStore("s").encode(texts, encoder), lambda: ranker.scores(texts)):
            e = raises(run)
            must(isinstance(e, TypeError), f"{type(e).__name__}: {e}")
        if not isinstance(texts, str): raises(lambda: kinds.predict(texts))

@case("queries", "a shuffled Series, a generator, an array and a tuple of texts, in Python", "the vectors of the list, by position (A2)")
def kinds_of_sequences():
    import numpy as np, pandas as pd
    from rank_bert.features import FeatureStore, encode
    from rank_bert.models import get_encoder
    encoder, texts = get_encoder("little"), Path("lines.txt").read_text().splitlines()[:20]
    series = pd.Series(texts).sample(frac=1, random_state=0)
    texts = series.tolist()
    wanted, ranker = encode(texts, encoder, progress=False), loader("ranker")("ranker")
    for form in (series, series[series.index > -1], tuple(texts), np.array(texts), np.array(texts, dtype=object), (t for t in texts)):
        again = list(form) if not hasattr(form, "__len__") else form
        found = FeatureStore("s").encode(again if hasattr(form, "__len__") else iter(again), encoder, progress=False).tensor()
        must((found - wanted).abs().max() < 1e-5, f"{type(form).__name__}: other vectors")
        must((ranker.scores(again) - ranker.scores(texts)).abs().max() < 1e-4, f"{type(form).__name__}: other scores")


# Environment

@case("environment", "no HOME, no XDG_CACHE_HOME, no RANK_BERT_HOME; a HOME that cannot be made", "it works, or a sentence that names RANK_BERT_HOME", limit=200, quick=False)
def no_home():
    gone = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "RANK_BERT_HOME"))
    done = real(*ENCODE, "--out", "v.st", env=gone | dict(XDG_CACHE_HOME=os.path.abspath("cache")))
    works(done)
    refuses(real(*ENCODE, "--out", "v2.st", env=gone | dict(HOME="/proc/nothing")), "RANK_BERT_HOME")

@case("environment", "stdin closed, stdout and stderr no terminal", "search works", limit=120, quick=False)
def no_terminal():
    works(real("search", "ranker", QUERY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

@case("environment", "output that is ASCII only (LC_ALL=C, PYTHONIOENCODING=ascii)", "text is escaped, JSON is valid and whole", limit=200, quick=False)
def ascii_output():
    env = dict(LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    works(real("predict", "kinds", "café 🙂", env=env))
    found = json.loads(works(real("predict", "kinds", "café 🙂\x9b", "--json", env=env)).out)
    must(found[0]["text"].startswith("caf"), found)

@case("environment", "the reader of the output is gone (a closed pipe)", "exit code 1 and a sentence, no traceback", limit=120, quick=False)
def closed_pipe():
    read, write = os.pipe()
    os.close(read)
    done = real("search", "ranker", QUERY, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    refuses(done, "stdout")

@case("environment", "folders and files with non-Latin names, blanks, quotes and a dash, and paths of 200 characters", "everything works", quick=False)
def names():
    for name in ("données été", "数据", "a'b\"c", "x"*60 + "/" + "y"*60 + "/" + "z"*60, "🙂"):
        os.makedirs(name)
        put("shop", f"{name}/shop")
        works(command("train", f"{name}/shop", *TRAIN[2:], "--out", f"{name}/out"))
        works(ask(f"{name}/out"))
        same(f"{name}/out", "ranker")
        works(command(*ENCODE, "--out", f"{name}/v.st"))
        clean(name)

@case("environment", "a folder called minilm or small in the working folder", "the variant is meant, or a sentence; never silently the folder")
def shadowed():
    put("little", "tiny")
    done = command("encode", "lines.txt", "--backbone", "tiny", "--out", "v.st")
    if not done.code: must("tiny" in done.said and "folder" in done.said, f"the folder was taken silently: {done.said}")
    else: refuses(done, "tiny")
    works(command("encode", "lines.txt", "--backbone", "./tiny", "--out", "v2.st"))

@case("environment", "a backbone that is nowhere, offline", "a sentence in seconds, with what could be meant")
def unknown_backbone():
    began = time.monotonic()
    refuses(command("encode", "lines.txt", "--backbone", "minilmm", "--out", "v.st"), "minilm")
    refuses(command("encode", "lines.txt", "--backbone", "some/thing-else", "--out", "v.st"), "some/thing-else")
    must(time.monotonic() - began < 30, "it waited")

@case("environment", "a soft limit of 256 open files and a store of 150 files", "train, encode and fine-tune work (C)", limit=200)
def open_files():
    from rank_bert.tasks.classifiers import classifier_learner
    from rank_bert.features import FeatureStore
    from rank_bert.models import get_encoder
    from rank_bert.read.texts import read_texts
    texts, encoder, store = Path("lines.txt").read_text().splitlines(), get_encoder("little"), FeatureStore("many")
    for i in range(150): store.encode([f"{texts[i % len(texts)]} {i}"], encoder, progress=False)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    found = store.encode([f"{texts[i % len(texts)]} {i}" for i in range(150)], encoder, progress=False)
    must(found.tensor().isfinite().all(), "not finite")
    ids = encoder.tokenize([f"{t} {i}" for i, t in enumerate(texts)])
    for i in range(120): store.states(ids[i:i + 1], encoder, 1, progress=False)
    store.states(ids[:130], encoder, 1, progress=False)
    learn = classifier_learner(read_texts("kinds.csv"), "little", -1, store=store, seed=0)
    with learn.no_bar(), learn.no_logging(): learn.fit(1, 1e-3)

@case("environment", "16 threads search one ranker and predict with one classifier", "the answers of one thread")
def sixteen_threads():
    texts = Path("lines.txt").read_text().splitlines()[:48]
    ranker, kinds = loader("ranker")("ranker"), loader("kinds")("kinds")
    wanted = [(ranker.search(t).to_json(), kinds.predict([t]).to_json()) for t in texts]
    ranker, kinds = loader("ranker")("ranker"), loader("kinds")("kinds")
    with ThreadPoolExecutor(16) as pool: found = list(pool.map(lambda t: (ranker.search(t).to_json(), kinds.predict([t]).to_json()), texts))
    must(found == wanted, "other answers")

@case("environment", "8 threads encode with an encoder in training mode", "the vectors of evaluation mode (F6)")
def training_mode_threads():
    from rank_bert.features import encode
    from rank_bert.read.testing import tiny_encoder
    texts, encoder = Path("lines.txt").read_text().splitlines(), tiny_encoder(hidden_dropout_prob=.5, attention_probs_dropout_prob=.5)
    wanted = encode(texts, encoder.eval(), progress=False)
    encoder.train()
    def call(i): return float((encode(texts[i:i + 9], encoder, progress=False) - wanted[i:i + 9]).abs().max())
    with ThreadPoolExecutor(8) as pool: worst = max(pool.map(call, range(len(texts))))
    must(worst < 1e-5 and encoder.training, f"difference {worst}, training {encoder.training}")

@case("environment", "--seed 2**70, -1 and x; --lr 1e30, nan, inf, 0; --epochs 0; --bs 0", "a sentence, exit code 2; where the training diverges 1, or the untrained head", quick=False)
def numbers():
    for option, value in (("--seed", 2**70), ("--seed", -1), ("--seed", "x"), ("--lr", "nan"), ("--lr", "inf"), ("--lr", "0"), ("--epochs", 0), ("--bs", 0), ("--max-tokens", 1)):
        refuses(command(*TRAIN, "--out", "out", option, value), option, code=2)
        refuses(command(*CLASSIFY, "--out", "out", option, value), option, code=2)
    for args in (TRAIN, CLASSIFY):
        done = command(*args, "--lr", "1e30", "--out", "out")
        if done.code: refuses(done, "rate")
        else: must("better than the untrained head" in done.said, done.said[-500:])  # what diverged is not kept: the untrained head is
        must(done.code == 0 or not Path("out").exists(), "out is there")
        shutil.rmtree("out", ignore_errors=True)

@case("environment", "values that are none: --head big, --pooling x, --passages x, --freeze all, --kind x, --keep x, --split x", "a sentence that lists what there is, before the work")
def words():
    for args, option in ((TRAIN, "--head"), (TRAIN, "--pooling"), (TRAIN, "--passages"), (CLASSIFY, "--freeze"), (CLASSIFY, "--pooling"), (CLASSIFY, "--kind"), (CLASSIFY, "--keep")):
        early(*args, "--out", "out", option, "nonsense", words=["nonsense"])
    refuses(command("evaluate", "ranker", "shop", "--split", "nonsense"), "nonsense")

@case("environment", "train --head identity, plain and barlow, --bs 1, --shared, --no-bm25", "they work: documented values (F7)", limit=200, quick=False)
def heads():
    for options in (("--head", "identity"), ("--head", "plain"), ("--head", "barlow"), ("--bs", "1"), ("--bs", "17", "--head", "plain"), ("--shared",), ("--no-bm25",)):
        works(command(*TRAIN, "--epochs", "1", "--out", "out", *options))
        works(ask("out"))
        shutil.rmtree("out")

@case("environment", "memory runs out, recursion goes too deep, a fault of ours", "a sentence without traceback; RANK_BERT_DEBUG=1 shows it")
def out_of_memory():
    from rank_bert.models import Encoder
    def fails(error):
        def fail(): raise error
        return on_call(fail, Encoder, "pad", 1)
    fresh = dict(RANK_BERT_HOME="fresh")
    refuses(command(*ENCODE, "--out", "v.st", env=fresh, before=fails(MemoryError())), "memory")
    refuses(command(*ENCODE, "--out", "v.st", env=fresh, before=fails(RecursionError())), "deep")
    done = command(*ENCODE, "--out", "v.st", env=fresh, before=fails(KeyError("x")))
    must(done.code == 1 and "Traceback" not in done.said and "RANK_BERT_DEBUG" in done.said, done.said)
    must("Traceback" in command(*ENCODE, "--out", "v.st", env=fresh | dict(RANK_BERT_DEBUG="1"), before=fails(KeyError("x"))).said, "no traceback")
    clean()

@case("environment", "a damaged, an empty and an odd kept run of an experiment", "it is run again; the table is as before", quick=False, limit=300)
def damaged_runs():
    one = works(command(*EXPERIMENT, limit=110))
    for path, text in zip(sorted(Path("kept").glob("*.json")), ("", "{}", "[]", '{"result": {}}', "null", "[" * 100_000, '{"result": 5, "cell": {}, "seconds": 1}')): path.write_text(text)
    again = works(command(*EXPERIMENT, limit=110))
    must(one.out == again.out, again.out)

@case("environment", "a ranker, a classifier and an encoder go through pickle, as for worker processes (B)", "the same answers")
def pickled():
    import pickle
    from rank_bert.features import encode
    from rank_bert.models import get_encoder
    encoder, ranker, kinds = get_encoder("little"), loader("ranker")("ranker"), loader("kinds")("kinds")
    again = [pickle.loads(pickle.dumps(x)) for x in (encoder, ranker, kinds)]
    must((encode(["a b"], again[0], progress=False) - encode(["a b"], encoder, progress=False)).abs().max() == 0, "other vectors")
    must(again[1].search(QUERY).to_json() == ranker.search(QUERY).to_json() and again[2].predict([QUERY]).to_json() == kinds.predict([QUERY]).to_json(), "other answers")

@case("environment", "rank_bert --help, --version, no command, an unknown command, a wrong option", "exit code 0 or 2, in two seconds, without torch", limit=60)
def usage():
    works(command("--help"), "search")
    works(command("--version"))
    for args in (("serch",), ("train",), ("train", "shop"), ("search", "ranker"), ("train", "shop", "--out", "o", "--epoch", "3")): refuses(command(*args), code=2)


# A server

def dies_with_parent() -> None:
    "A hook for `before`: a case that is ended at its limit leaves no server behind."
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)

def served(*args, before: Callable = dies_with_parent) -> tuple[int, Path, int]:
    "A server in a process of its own, and its port."
    pid, printed = start(main_of(("serve", *args, "--port", "0", "--reload", ".1")), before=before)
    end = time.monotonic() + 150
    while time.monotonic() < end:
        said = (printed/"said").read_text() if (printed/"said").exists() else ""
        if found := re.search(r" at http://127.0.0.1:(\d+)\n", said): return pid, printed, int(found[1])
        time.sleep(.02)
    os.killpg(pid, signal.SIGKILL)
    raise Wrong(f"it does not serve: {said[-500:]}")

def post(port: int, path: str, body: dict|bytes, limit: float = 60) -> tuple[int, dict]:
    "Status and content of an answer."
    from http.client import HTTPConnection
    with contextlib.closing(HTTPConnection("127.0.0.1", port, timeout=limit)) as line:
        line.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), {"Content-Type": "application/json"})
        answer = line.getresponse()
        return answer.status, json.loads(answer.read())

def ask_on(port: int, answers: list, lost: list) -> None:
    "Ask until the server takes no more connections."
    while not time.sleep(.02):
        try: answers.append(post(port, "/search", dict(query=QUERY, k=3)))
        except Exception as e:
            # a connection that waited when the server closed is reset; one that was taken ends in RemoteDisconnected
            if type(e) in (ConnectionRefusedError, ConnectionResetError): return
            return lost.append(f"{type(e).__name__}: {e}")

def stopped_under_load(number: int) -> None:
    "Twelve clients ask while the folder is replaced four times; then the server is told to stop."
    from rank_bert.rankers.training import load_ranker
    put("ranker", "live")
    put("older", "next")
    pid, printed, port = served("live")
    answers, lost = [], []
    with ThreadPoolExecutor(12) as pool:
        for _ in range(12): pool.submit(ask_on, port, answers, lost)
        for n in range(1, 5):
            os.rename("live", "was")
            os.rename("next", "live")
            os.rename("was", "next")
            end = time.monotonic() + 60
            while (printed/"said").read_text().count("was read again") < n and time.monotonic() < end: time.sleep(.1)
        os.kill(pid, number)
    done = stop(pid, printed)
    must(done.code == 0 and "Traceback" not in done.said, f"exit code {done.code}: {done.said[-800:]}")
    must(not lost, f"{len(lost)} of {len(answers)} requests were dropped: {lost[:3]}")
    must({status for status, _ in answers} == {200} and len(answers) > 24, Counter(status for status, _ in answers))
    valid = [[*load_ranker(name).search(QUERY, 3).doc_id] for name in ("ranker", "older")]
    found = [[row["doc_id"] for row in one["results"]] for _, one in answers]
    must(all(one in valid for one in found), f"answers of neither ranker: {[one for one in found if one not in valid][:3]}")
    must(done.said.count("was read again") == 4, f"newer folders were not taken up: {done.said[-500:]}")

for number, short in ((signal.SIGTERM, "term"), (signal.SIGINT, "ctrl-c")):
    case("serve", f"{short} while 12 clients ask and the folder is replaced four times", "every request is answered, by one of the rankers; exit code 0",
         name=f"serve-{short}", quick=number == signal.SIGTERM, limit=300)(lambda number=number: stopped_under_load(number))

@case("serve", "the folder is damaged, replaced by a classifier, removed, and mended", "the older ranker answers all the time; then the newer one", limit=300)
def served_damaged():
    put("ranker", "live")
    pid, printed, port = served("live")
    for name in ("damaged", "kinds", "gone"):
        shutil.rmtree("live")
        if name == "kinds": put("kinds", "live")
        elif name == "damaged":
            put("older", "live")
            Path("live/head.safetensors").write_bytes(b"x")
        for _ in range(5):
            must(post(port, "/search", dict(query=QUERY))[0] == 200, name)
            time.sleep(.1)
    shutil.rmtree("live", ignore_errors=True)
    put("older", "live")
    end = time.monotonic() + 30  # it looks at a damaged folder every ten seconds
    while "was read again" not in (printed/"said").read_text() and time.monotonic() < end: time.sleep(.1)
    os.kill(pid, signal.SIGTERM)
    done = stop(pid, printed)
    must(done.code == 0 and done.said.count("stays as it was") >= 1 and "was read again" in done.said, done.said[-600:])

@case("serve", "2,000 connections that say nothing, which come again as they are closed, and 256 descriptors at the start", "honest requests are answered within 5 seconds; the log stays small")
def served_flooded():
    import socket
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))  # the server inherits it, and raises it for itself
    pid, printed, port = served("ranker", "--seconds", "20")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    idle, ends = [], time.time() + 12
    def flood():
        while time.time() < ends:
            idle.append(socket.create_connection(("127.0.0.1", port), 20))
            if len(idle) > 2000: idle.pop(0).close()
            time.sleep(.001)
    with ThreadPoolExecutor(2) as pool:
        flooding = pool.submit(flood)
        took = []
        while time.time() < ends:
            start = time.time()
            must(post(port, "/search", dict(query=QUERY))[0] == 200, "no answer in a flood")
            took.append(time.time() - start)
            time.sleep(.2)
        flooding.result()
    open_files = len(os.listdir(f"/proc/{pid}/fd")) if os.path.isdir(f"/proc/{pid}/fd") else 0
    must(max(took) < 5 and len(idle) > 1000, f"{max(took):.1f} s, {len(idle)} connections")
    must(open_files < 900, f"{open_files} open files")
    for line in idle: line.close()
    os.kill(pid, signal.SIGTERM)
    done = stop(pid, printed)
    must(done.code == 0 and len(done.said) < 5000, done.said[-800:])

@case("serve", "requests that are cut, slow, huge, nested 100,000 deep, no JSON, no HTTP; 300 idle connections", "a status from 400 to 431, or a closed connection; others are answered; silent ones are closed", limit=300)
def served_hostile():
    import socket
    from http.client import HTTPConnection
    pid, printed, port = served("ranker", "--seconds", "5")
    def raw(content: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", port), 20) as line:
            with contextlib.suppress(OSError): line.sendall(content)
            found = b""
            with contextlib.suppress(OSError):
                while part := line.recv(65536): found += part
            return found
    head = b"POST /search HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    def status(content): return int((raw(content).split(b" ", 2) + [b"0", b"0"])[1] or 0)
    must(status(head + b"Content-Length: 50\r\n\r\n{") == 408, "a slow body")
    must(status(head + b"Content-Length: 99999999999\r\n\r\n{") == 413, "a huge body")
    deep = b'{"query": "a", "where": ' + b'{"a":'*100_000 + b"1" + b"}"*100_001
    for body in (deep, b"[" * 100_000, b"\xff\xfe", b"", b"null", b'{"query": "\\ud800"}', b'{"query": 1e999}'):
        found = status(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        must(400 <= found < 500 or found == 200 and b"ud800" in body, f"{found} for {body[:30]!r}")
    for content in (b"\0" * 1000, b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n"):
        must(status(content) in (0, 400, 414, 431, 505, 403, 404), content[:20])
    upgrade = head.replace(b"POST /search", b"GET /ws") + b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    upgrade = upgrade.replace(b"Connection: close", b"Connection: Upgrade")
    def ask_upgrade(_):
        with socket.create_connection(("127.0.0.1", port), 20) as line:
            line.sendall(upgrade)
            line.recv(100)
    with ThreadPoolExecutor(8) as pool: list(pool.map(ask_upgrade, range(400)))
    idle = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(300)]
    must(post(port, "/search", dict(query=QUERY))[0] == 200, "it does not answer any more")
    halves = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(20)]
    for line in halves: line.sendall(b"POST /search HTTP/1.1\r\nHost: loc")
    kept = HTTPConnection("127.0.0.1", port, timeout=20)  # that asks now and then is no silent one
    kept.connect()
    line_of_kept = kept.sock
    for _ in range(8):
        kept.request("GET", "/healthz")
        must(kept.getresponse().read() and kept.sock is line_of_kept, "a connection in use was closed")
        time.sleep(1)
    kept.close()
    for line in idle + halves:
        line.settimeout(.1)
        must(line.recv(10) == b"", "a silent connection is still open")
        line.close()
    os.kill(pid, signal.SIGTERM)
    done = stop(pid, printed)
    must(done.code == 0 and "Traceback" not in done.said, done.said[-800:])

@case("serve", "filters and documents of too many values, columns or characters, or too deep; then SIGTERM while nobody asks", "413 or 422 in a short sentence, nothing is kept, no more log than a line each; it ends within two seconds", limit=300)
def served_shapes():
    put("ranker", "live")
    pid, printed, port = served("live")
    begun, before = len((printed/"said").read_text()), tree("live")
    deep = json.loads("[" * 600 + "]" * 600)
    one = dict(doc_id="new", text="some words")
    asked = [(422, "/search", dict(query=QUERY, where=dict(a=deep))), (413, "/search", dict(query=QUERY, where=dict(a=[*range(200_000)]))),
             (413, "/documents", dict(documents=[one | {f"c{i}": i for i in range(60_000)}])), (422, "/documents", dict(documents=[one | dict(a=deep)])),
             (413, "/documents", dict(documents=[one | dict(doc_id="a"*10**6)])), (413, "/documents", dict(documents=[one | {"a"*10_000: 1}]))]
    for status, path, body in asked:
        found, answer = post(port, path, body)
        must(found == status and len(str(answer)) < 300, (path, [*body], found, str(answer)[:300]))
    must(post(port, "/search", dict(query=QUERY))[0] == 200, "it does not answer any more")
    must(tree("live") == before, "the folder was changed")
    must(len((printed/"said").read_text()) - begun < 2000, "a long log")
    began = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    done = stop(pid, printed)
    must(done.code == 0 and "Traceback" not in done.said, done.said[-800:])
    must(time.monotonic() - began < 2, f"it ended after {time.monotonic() - began:.1f} seconds")

def killed_at(name: str, n: int) -> Callable:
    "A hook for `before`: kills the process before the n-th call of a method of tables."
    def set_hook():
        from lancedb.table import LanceTable  # here, as its threads do not outlive a fork
        on_call(signals(signal.SIGKILL), LanceTable, name, n)()
    return set_hook

def whole_tables(held: dict[str, str]) -> None:
    "The tables hold these documents, and find what a ranker in memory finds among them."
    def look():
        from rank_bert.rankers.training import load_ranker
        there, wanted = load_ranker("ranker", index="tables"), load_ranker("ranker")
        found = dict(zip(there.documents.doc_id, there.documents.text))
        must(found == held, f"other documents: {found.items() ^ held.items()}")
        wanted.update(there.documents, remove_missing=True, progress=False)
        for mode in wanted.modes:
            a, b = (r.search(QUERY, 99, mode).set_index("doc_id").score for r in (there, wanted))
            must(len(a) == len(b) and float((a - b).abs().max()) < 1e-3, f"{mode}: other scores: {a} {b}")
    works(forked(look))

@case("serve", "a server over LanceDB is killed at each step of a change, and at random moments while documents are added", "the tables are whole: each acknowledged document is there, and at most the last one beside; the next server goes on, and another one beside it finds what it takes", quick=False, limit=600)
def served_lancedb():
    works(command("export", "ranker", "--to", "lancedb", "--out", "tables"))
    held, rng = {d["doc_id"]: d["text"] for d in map(json.loads, Path("ranker/documents.jsonl").read_text().splitlines())}, random.Random(0)
    def change(port: int, doc_id: str) -> bool:
        "Write a document; whether it was acknowledged."
        text = f"where is {doc_id} of the answer"
        try: status, said = post(port, "/documents", dict(documents=[dict(doc_id=doc_id, text=text)], update=True))
        except Exception: return False
        must(status == 200, said)
        held[doc_id] = text
        return True
    for name, n in (("delete", 1), ("add", 1), ("add", 2)):  # before a row is gone, before the new one is there, before the words are counted
        pid, printed, port = served("ranker", "--index", "tables", before=all_of(dies_with_parent, killed_at(name, n)))
        must(not change(port, "d0"), f"{name} {n} was not called")
        must(stop(pid, printed).code == -9, "it was not killed")
        whole_tables(held)
    for turn in range(3):
        pid, printed, port = served("ranker", "--index", "tables")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: (time.sleep(rng.uniform(.1, 1)), os.kill(pid, signal.SIGKILL)))
            n = 0
            while change(port, f"n{turn}.{n}"): n += 1
        done = stop(pid, printed)
        must(done.code == -9 and "Traceback" not in done.said, done.said[-800:])
        last = f"n{turn}.{n}"
        def there():
            from rank_bert.rankers.training import load_ranker
            print(json.dumps(load_ranker("ranker", index="tables").documents.doc_id.tolist()))
        if last in json.loads(works(forked(there)).out): held[last] = f"where is {last} of the answer"
        whole_tables(held)
    pid, printed, port = served("ranker", "--index", "tables")
    must(change(port, "d0") and change(port, "last"), "the next server does not go on")
    beside, other = (pid, printed), served("ranker", "--index", "tables")
    must(change(port, "more"), "two servers do not go together")
    end = time.monotonic() + 30
    def found(at: int) -> list: return [row["doc_id"] for row in post(at, "/search", dict(query="more", mode="bm25", where=dict(doc_id="more")))[1]["results"]]
    while not found(other[2]) and time.monotonic() < end: time.sleep(.1)
    must(found(port) == found(other[2]) == ["more"], "another server does not find it")
    for pid, printed in (beside, other[:2]):
        os.kill(pid, signal.SIGTERM)
        done = stop(pid, printed)
        must(done.code == 0 and "Traceback" not in done.said, done.said[-800:])
    whole_tables(held)
    return f"{len(held) - 24} documents were added"

@case("serve", "a port in use, no such folder, an open address without a key", "a sentence, before a model is loaded where possible")
def serve_refused():
    import socket
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refuses(command("serve", "ranker", "--port", str(taken.getsockname()[1])), "in use", "another port")
    refuses(command("serve", "nothing", "--port", "0"), "nothing", "ranker.json")
    refuses(command("serve", "ranker", "--port", "0", "--host", "0.0.0.0"), "RANK_BERT_API_KEY")
    refuses(command("serve", "ranker", "--port", "0", env=dict(RANK_BERT_API_KEY="clé")), "ASCII")


# Ray

def ray_rows(n: int = 960) -> None:
    "Rows in two files, among them bad ones and an id that comes again."
    from rank_bert.read.testing import synth_ranking
    rows = synth_ranking(n).documents.to_dict("records")
    Path("rows").mkdir()
    more = [dict(doc_id="d0", text="again"), dict(doc_id="x", text=" "), dict(text="no id"), dict(doc_id="y", text=5)]
    for name, part in (("a", rows[:n//2]), ("b", rows[n//2:] + more)): Path(f"rows/{name}.jsonl").write_text("\n".join(map(json.dumps, part)))

def on_ray(data: str = "rows", **kwargs) -> list[int]:
    "Encode in small tasks: rows, encoded, removed, bad, cut."
    from rank_bert.scale.cluster import encode_dataset
    return [*encode_dataset(data, "out", "little", **dict(bs=16, workers=2, progress=False) | kwargs)]

def alone_on_ray(workers: int = 2) -> None:
    "The same on a Ray of its own; writes what came to a file, as Ray's processes may print."
    from rank_bert.scale.cluster import start_ray
    with start_ray(workers=workers, memory_mb=100): Path("came.json").write_text(json.dumps(on_ray(workers=workers)))

def came():
    "What a run on Ray wrote."
    return json.loads(Path("came.json").read_text())

def marks() -> list[Path]:
    "The tasks that are recorded as done."
    return [p for p in Path("out").glob("checkpoint/*.parquet") if not p.name.endswith(".pending.parquet")]

def until_done(n: int, limit: float = 240) -> None:
    "Wait until some tasks are recorded as done."
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if len(marks()) >= n: return
        time.sleep(.005)
    raise Wrong(f"no {n} tasks were done in {limit:.0f} s")

def until_gone(processes: list, limit: float = 60) -> None:
    "Wait until processes have ended; agents of Ray may be left."
    import psutil
    left = [c for c in psutil.wait_procs(processes, limit)[1] if "Agent" not in named(c) and c.status() != psutil.STATUS_ZOMBIE]
    must(not left, f"left running: {left}")

def children(pid: int) -> list:
    import psutil
    return psutil.Process(pid).children(recursive=True)

def named(process) -> str:
    "What a process is called; '' when it has ended."
    import psutil
    try: return process.name() + " " + " ".join(process.cmdline())
    except psutil.Error: return ""

def encoders(pid: int) -> list:
    "The processes under another one that encode for Ray."
    return [c for c in children(pid) if "(_Worker)" in named(c)]

def pause(since: float) -> float:
    "The longest time after a moment in which no rows were written."
    times = [since, *sorted(t for p in Path("out/vectors").glob("*.parquet") if (t := p.stat().st_mtime) > since)]
    must(len(times) > 5, "too little was left to do")
    return max(b - a for a, b in zip(times, times[1:]))

def once(n: int = 960) -> str:
    "Every row is there once, with the vector of one machine."
    import numpy as np, pandas as pd
    from rank_bert.features import encode
    from rank_bert.models import get_encoder
    table = pd.read_parquet("out/vectors").set_index("id")
    lost, twice = len({f"d{i}" for i in range(n)} - set(table.index)), len(table) - table.index.nunique()
    must(lost == twice == len(table) - n == 0, f"{len(table)} rows, {lost} lost, {twice} twice")
    apart = np.abs(np.stack(table.vector) - encode(table.text, get_encoder("little"), progress=False).numpy()).max()
    must(apart < 2e-2, f"vectors differ by {apart}")
    reasons = Counter(json.loads(line)["reason"] for line in open("out/bad.jsonl"))
    must(sum(reasons.values()) == len(reasons) == 4, reasons)
    return f"{len(table)} rows, {lost} lost, {twice} twice"

@case("ray", "the only worker is killed in the middle", "another takes its place, and the run goes on: every row once", quick=False, limit=600)
def ray_worker():
    ray_rows()
    pid, printed = start(lambda: alone_on_ray(1), before=dies_with_parent)
    until_done(4)
    workers = encoders(pid)
    must(len(workers) == 1, f"{len(workers)} workers were found")
    killed, done = time.time(), len(marks())
    workers[0].kill()
    works(stop(pid, printed, 400))
    must(came() == [960, 960, 0, 4, 0], came())
    return f"killed after {done} of {len(marks())} tasks, no rows for {pause(killed):.0f} s; {once()}"

@case("ray", "the program is killed in the middle, and started again", "no worker and no server of Ray is left running (its agents end by themselves, in a minute or two); the second run encodes only what is missing: every row once", quick=False, limit=900)
def ray_program():
    import pyarrow.parquet as pq
    ray_rows()
    pid, printed = start(alone_on_ray, before=dies_with_parent)
    until_done(4)
    of_it = children(pid)
    os.kill(pid, signal.SIGKILL)
    stop(pid, printed)
    until_gone(of_it)
    done = sum(pq.read_metadata(p).num_rows for p in marks())
    must(0 < done < 960, f"{done} rows were done when it was killed")
    again = time.time()
    works(forked(alone_on_ray, limit=400))
    must(came() == [960, 960 - done, 0, 4, 0], f"{done} were done; {came()}")
    return f"killed after {done} rows, {960 - done} encoded by the second run, its first after {pause(again):.0f} s; {once()}"

def two_nodes(**second):
    "Two nodes of Ray on this machine, each with room for one worker of two slots."
    from ray.cluster_utils import Cluster
    from rank_bert.scale.cluster import load_ray
    load_ray()
    cluster = Cluster(initialize_head=True, head_node_args=dict(num_cpus=3, num_gpus=0, object_store_memory=100*2**20))
    return cluster, cluster.add_node(**dict(num_cpus=3, num_gpus=0, object_store_memory=100*2**20) | second)

@case("ray", "a node of two is killed in the middle", "the run goes on with the other node: every row once", quick=False, limit=900)
def ray_node():
    def run():
        import threading
        from rank_bert.scale.cluster import start_ray
        cluster, node = two_nodes()
        killed = []
        def kill():
            until_done(4)
            workers = encoders(node.all_processes["raylet"][0].process.pid)
            killed.extend([len(workers), len(marks()), time.time()])
            cluster.remove_node(node, allow_graceful=False)
        try:
            with start_ray(cluster.address):
                killer = threading.Thread(target=kill)
                killer.start()
                found = on_ray(threads=2)
                killer.join()
        finally: cluster.shutdown()
        Path("came.json").write_text(json.dumps([found, killed]))
    ray_rows()
    works(forked(run, before=dies_with_parent, limit=800))
    found, (workers, done, at) = came()
    must(workers == 1, f"{workers} workers were on the node")
    must(found == [960, 960, 0, 4, 0], found)
    return f"killed after {done} of {len(marks())} tasks, no rows for {pause(at):.0f} s; {once()}"

@case("ray", "workers ask for a GPU: one node has a slot for it", "the worker is started there; if torch cannot use the GPU, a sentence says so", quick=False, limit=600)
def ray_gpu():
    import torch
    def run():
        from rank_bert.scale.cluster import start_ray
        cluster, _ = two_nodes(num_gpus=1)
        try:
            with start_ray(cluster.address):
                raises(lambda: on_ray(workers=2, gpus=1), "6 and 1 GPUs", "fewer workers")
                if torch.cuda.is_available(): must(on_ray(workers=1, gpus=1)[1] == 960, "not all were encoded")
                else: raises(lambda: on_ray(workers=1, gpus=1), "node with a GPU cannot use it", "gpus=0")
        finally: cluster.shutdown()
    ray_rows()
    works(forked(run, before=dies_with_parent, limit=500))

@case("ray", "files that are damaged, cut, empty or of another form; no files; vectors of another kind", "a sentence that names the file, before anything is encoded", limit=600)
def ray_refused():
    import pandas as pd
    from rank_bert.scale.cluster import start_ray
    frame = pd.DataFrame(dict(doc_id=["a"], text=["b"]))
    def bad(name: str, content: bytes, *words: str) -> None:
        Path("bad").mkdir(exist_ok=True)
        Path("bad", name).write_bytes(content)
        raises(lambda: on_ray(f"bad/{name}"), *words)
        must(not Path("out/vectors").exists(), "something was encoded")
    def run():
        frame.to_parquet("whole.parquet")
        with start_ray(workers=2, memory_mb=100):
            bad("cut.parquet", Path("whole.parquet").read_bytes()[:-9], "cut.parquet")
            bad("empty.parquet", b"", "empty.parquet")
            bad("cut.jsonl.gz", gzip.compress(b'{"doc_id": "a", "text": "b"}\n'*9999)[:50], "cut.jsonl.gz")
            bad("none.jsonl", b"", "no row")
            bad("other.jsonl", b'{"id": "a", "body": "b"}\n', "no row", "bad.jsonl")
            bad("other.csv", b"a,b\n", "no row")
            raises(lambda: on_ray("nowhere"), "nowhere", ".jsonl")
            frame.rename(columns=dict(text="body")).to_parquet("bad/column.parquet")
            raises(lambda: on_ray("bad/column.parquet"), "column.parquet", "no column 'text'")
            must(on_ray("whole.parquet") == [1, 1, 0, 0, 0], "not encoded")
            raises(lambda: on_ray("whole.parquet", pooling="max"), "pooling", "another folder")
    works(forked(run, limit=580))


# Run them

def attempt(c: Case, base: Path, work: Path) -> tuple[int, Path, float]:
    "Begin a case in a process and a folder of its own; its id, its folder and the time."
    place = Path(tempfile.mkdtemp(prefix=f"{c.name}-", dir=work))
    pid = os.fork()
    if pid: return pid, place, time.monotonic()
    code = 1
    try:
        os.setsid()
        log = os.open(place/"log", os.O_WRONLY|os.O_CREAT)
        for n in (1, 2): os.dup2(log, n)
        faulthandler.register(signal.SIGUSR1, open(place/"stands", "w"))
        os.environ["FAULTS"] = str(place)
        shutil.copytree(base, place/"here", symlinks=True)
        os.chdir(place/"here")
        os.environ["RANK_BERT_HOME"] = str(place/"here"/"home")
        told = c.run()
        (place/"told").write_text(told if isinstance(told, str) else "")
        code = 0
    except Wrong as e: (place/"wrong").write_text(str(e), errors="replace")
    except BaseException: (place/"wrong").write_text("the case itself failed: " + traceback.format_exc(limit=-4)[-1200:], errors="replace")
    finally: os._exit(code)

def verdict(c: Case, status: int|None, place: Path) -> str:
    "What was wrong with a case, or ''."
    if status == 0: return ""
    if status is None: return f"no end after {c.limit} s\n" + (place/"stands").read_text()[-900:]
    if (place/"wrong").exists(): return (place/"wrong").read_text(errors="replace")
    return f"the process ended with {status}: {(place/'log').read_text(errors='replace')[-300:]}"

def end_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError): os.killpg(pid, signal.SIGKILL)

def remove(place: Path) -> None:
    for folder, _, _ in os.walk(place):
        with contextlib.suppress(OSError): os.chmod(folder, 0o700)
    shutil.rmtree(place, ignore_errors=True)

def run_all(cases: list[Case], base: Path, work: Path, jobs: int) -> dict[str, str]:
    "Try the cases, some at a time; name -> what was wrong."
    waiting, running, found = list(cases), {}, {}
    while waiting or running:
        while waiting and len(running) < jobs:
            c = waiting.pop(0)
            pid, place, began = attempt(c, base, work)
            running[pid] = c, place, began
        time.sleep(.02)
        for pid, (c, place, began) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            late = time.monotonic() - began > c.limit
            if not ended and not late: continue
            if not ended:
                os.kill(pid, signal.SIGUSR1)  # tells where it stands
                time.sleep(.2)
                end_group(pid)
                os.waitpid(pid, 0)
            found[c.name] = verdict(c, os.waitstatus_to_exitcode(status) if ended else None, place)
            print(f"{'FAIL' if found[c.name] else 'ok'} {c.group}: {c.name} ({time.monotonic() - began:.0f} s)", flush=True)
            if not found[c.name] and (told := (place/"told").read_text()): print(f"     {told}", flush=True)
            if found[c.name]: print(f"     does: {c.does}\n     must hold: {c.holds}\n     came: " + found[c.name].strip().replace("\n", "\n           "), flush=True)
            remove(place)
            del running[pid]
    return found

def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--list", action="store_true", help="only say what there is")
    p.add_argument("--quick", action="store_true", help="leave out what takes long: at most 5 minutes")
    p.add_argument("--group", action="append", choices=sorted({c.group for c in CASES}), help="only this group")
    p.add_argument("--case", action="append", help="only cases whose names hold this")
    p.add_argument("-j", "--jobs", type=int, default=max(2, min(4, cores())), help="cases at a time (%(default)s here)")
    p.add_argument("--python", help="try another Python, with rank_bert and its extras installed")
    return p.parse_args()

def warm() -> None:
    "Import everything, and run nothing: what is forked from here starts at once."
    import importlib, torch
    torch.set_num_threads(1)
    for name in ("cli", "experiments", "features", "rankers.training", "read.testing", "read.texts", "share.serving", "study.studies", "study.sweeps",
                 "tasks.classifiers", "tasks.tagging"): importlib.import_module(f"rank_bert.{name}")
    import pyarrow.parquet, transformers  # noqa: F401

def main() -> int:
    args = arguments()
    if args.python: os.execve(args.python, [args.python, __file__, *drop_python(sys.argv[1:])], dict(os.environ) | QUIET)
    cases = [c for c in CASES if not (args.quick and not c.quick) and (not args.group or c.group in args.group) and (not args.case or any(n in c.name for n in args.case))]
    if args.list:
        for c in cases: print(f"{c.group}: {c.name}: {c.does}: {c.holds}")
        return 0
    if any(os.environ.get(k) != v for k, v in QUIET.items()):  # what must be set before Python starts
        os.execve(sys.executable, [sys.executable, __file__, *sys.argv[1:]], {k: v for k, v in os.environ.items() if k != "RANK_BERT_DATA"} | QUIET)
    began, names = time.monotonic(), [c.name for c in CASES]
    if twice := [n for n, k in Counter(names).items() if k > 1]: raise SystemExit(f"two cases of one name: {twice}")
    warm()
    with tempfile.TemporaryDirectory(prefix="faults-") as work:
        base = Path(work)/"base"
        base.mkdir()
        os.environ |= dict(RANK_BERT_HOME=str(base/"home"), FAULTS=work)
        prepare(base)
        for c in base.glob("printed-*"): shutil.rmtree(c)
        os.chdir(work)
        found = run_all(cases, base, Path(work), args.jobs)
    print(f"\n{'group':14}cases  passed    Python {sys.version.split()[0]}, {time.monotonic() - began:.0f} s")
    for group in dict.fromkeys(c.group for c in cases):
        of = [found[c.name] for c in cases if c.group == group]
        print(f"{group:14}{len(of):5}{sum(not o for o in of):8}")
    failed = sum(bool(o) for o in found.values())
    print(f"{len(found) - failed} passed, {failed} failed")
    return int(failed > 0 or not found)

def drop_python(words: list[str]) -> list[str]:
    "Arguments without `--python PATH`."
    return [w for i, w in enumerate(words) if w != "--python" and not w.startswith("--python=") and (not i or words[i - 1] != "--python")]


if __name__ == "__main__": sys.exit(main())
