"""The house rules that no notebook can test about itself: `python tools/check.py [NAME ...]`.

A check is a function that yields what is wrong, with the remedy; its name is the function's. It says `ok NAME` or
`FAIL NAME: what and the remedy`, and the last line is `N passed, N failed`.
"""
import ast, io, json, os, re, subprocess, sys, tarfile, tempfile, tokenize, tomllib, zipfile
from itertools import chain, takewhile
from pathlib import Path

from fastcore.nbio import nb2str, nb_frontmatter, read_nb
from IPython.core.inputtransformer2 import TransformerManager

from packages import build, settings
from stored import code_hash, stamped

ROOT = Path(__file__).resolve().parent.parent
OUTPUT_BYTES, NOTEBOOK_BYTES, EXPORT_LINES, WIDTH = 20_000, 200_000, 40, 120
HEAVY = {"torch", "fastai"}
COLAB = re.compile(r"^\s*! ?\[ -e /content \] && pip install .*rank_bert", re.M)
LOCAL_PATH = re.compile(r"(?<![\w.:/-])/(?:home|root|tmp|work|Users|private|mnt|opt|usr|var|srv|workspace)/[\w.-]*|[A-Z]:\\\\?Users\\")
REGISTRY = re.compile(r"index[-_]url|find[-_]links|https?://[^\s\"]*/simple/")  # where packages come from is the business of each machine


# What the checks look at

def paths() -> list[Path]:
    "Every notebook, those that the test run would pass over too; not the copies that `--fresh` works on."
    return sorted(p for p in Path("nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts and not p.name.startswith(".fresh-"))


def numbered() -> list[Path]:
    return [p for p in paths() if p.parent == Path("nbs") and re.match(r"\d\d[a-z]?_", p.name)]


def cells(kind: str = ""):
    "(where, cell) of every cell, of one type if asked."
    for path in paths():
        for cell in read_nb(path).cells:
            if kind in ("", cell.cell_type): yield f"{path} cell {cell.id}", cell


def outputs():
    "(where, output) of every stored output."
    for where, cell in cells("code"):
        for out in cell.outputs: yield where, out


def texts(out: dict) -> str:
    "The readable parts of an output; pictures are left out, their base64 spells anything."
    parts = [out.get("text", ""), out.get("evalue", ""), out.get("traceback", "")]
    parts += [v for k, v in out.get("data", {}).items() if not k.startswith("image/") or "svg" in k]
    return "\n".join(json.dumps(p, ensure_ascii=False) if isinstance(p, dict) else "".join(p) for p in parts)


def module(path: Path) -> str:
    "The module a notebook exports to, or ''."
    return next((c.directive("default_exp") for c in read_nb(path).cells if c.has_directive("default_exp")), "")


def imported(source: str) -> set[str]:
    "The rank_bert modules that a cell imports, IPython magics allowed."
    found = set()
    for node in ast.walk(ast.parse(TransformerManager().transform_cell(source))):
        if isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("rank_bert.")}
        elif isinstance(node, ast.ImportFrom):
            if node.module == "rank_bert": found |= {a.name for a in node.names if not a.name.startswith("__")}
            elif (node.module or "").startswith("rank_bert."): found.add(node.module.split(".")[1])
            elif node.level: found |= {node.module.split(".")[0]} if node.module else {a.name for a in node.names}
    return found


def is_export(cell) -> bool:
    return bool(cell.directives.keys() & {"export", "exporti", "exports"})


def definitions(body: list) -> list:
    "The public functions and classes among statements."
    return [n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name[0] != "_"]


def calls(node) -> str:
    "How a use of a definition begins: a `@patch`ed method with a point, everything else as it is."
    patched = any("patch" in ast.unparse(d) for d in node.decorator_list)
    return rf"\.{node.name}\b" if patched else rf"\b{node.name}\b"


def sentences(cells: list) -> str:
    "The prose of Markdown cells: what is neither heading, description line nor badge."
    return "\n".join(re.sub(r"^([#>].*|\[!\[.*)$", "", c.source, flags=re.M) for c in cells if c.cell_type == "markdown").strip()


def sources() -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in sorted(Path("rank_bert").rglob("*.py"))}


# The checks

def exported():
    "The package is what its notebooks export."
    from nbdev.doclinks import nbdev_export
    before = sources()
    nbdev_export.__wrapped__()
    after = sources()
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) != after.get(path): yield f"{path} was not what the notebooks export; written anew, commit it"
    known = {m.replace(".", "/") for m in map(module, paths()) if m} | {"__init__", "_modidx"}
    for path in after:
        if path.relative_to("rank_bert").with_suffix("").as_posix() not in known:
            yield f"{path} is exported by no notebook: delete it, or give it one"


def clean():
    "nbdev-clean has nothing to do."
    from nbdev.clean import clean_nb
    from nbdev.config import get_config
    for path in paths():
        text = path.read_text(encoding="utf-8")
        nb = json.loads(text)
        clean_nb(nb, allowed_metadata_keys=get_config(ROOT).allowed_metadata_keys)
        if nb2str(nb) != text: yield f"{path} holds run counts or editor metadata: `nbdev-clean --fname {path}`"


def readme():
    "README.md is what nbs/index.ipynb gives."
    from readme import difference
    if diff := difference(): yield f"README.md differs from nbs/index.ipynb: `python tools/readme.py`\n{diff}"


def order():
    "A notebook imports only from notebooks that sort before it."
    home = {module(p): p.name for p in numbered()}
    for path in numbered():
        for cell in read_nb(path).cells:
            if cell.cell_type != "code": continue
            for name in sorted(imported(cell.source)):
                if name not in home: yield f"{path} cell {cell.id} imports rank_bert.{name}, which no numbered notebook exports"
                elif home[name] >= path.name:
                    yield f"{path} cell {cell.id} imports rank_bert.{name} of {home[name]}: move what it needs to an earlier notebook"


def private():
    "A name with an underscore stays in its module."
    for path in sorted(Path("rank_bert").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.level or str(node.module).startswith("rank_bert")): continue
            for name in (a.name for a in node.names if a.name.startswith("_") and not a.name.startswith("__")):
                yield f"{path}:{node.lineno} imports {name}: drop its underscore, in a cell flagged `#| exporti`"


def signatures():
    "(module, name, AST arguments) of every public function, and of every class and method without an underscore."
    for path in sorted(Path("rank_bert").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        public = {n for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__" and isinstance(node.value, ast.List)
                  for n in ast.literal_eval(node.value)}
        for node in definitions(tree.body):
            if isinstance(node, ast.FunctionDef):
                patched = [ast.unparse(a.annotation) for a in node.args.args[:1] if a.annotation and any("patch" in ast.unparse(d) for d in node.decorator_list)]
                if node.name in public or patched: yield path.stem, node.name, node.args
            else:  # the makers of Learners give classes that are not in `__all__`
                for m in node.body:
                    if isinstance(m, ast.FunctionDef) and (m.name == "__init__" or m.name[0] != "_"): yield path.stem, f"{node.name}.{m.name}", m.args


def parameters():
    "One word for one thing: the parameters of public functions are called, ordered and set as tools/names.toml says."
    agreed, homes = tomllib.loads(Path("tools/names.toml").read_text(encoding="utf-8")), {}
    known = {*agreed["concepts"], *agreed["plain"]["names"].split()}
    for module, name, args in signatures():
        found = [a for a in [*args.posonlyargs, *args.args, *args.kwonlyargs] if a.arg not in ("self", "cls")]
        defaults = dict(zip([a.arg for a in args.args][::-1], [ast.unparse(d) for d in args.defaults][::-1]))
        for a in found:
            homes.setdefault(a.arg, {}).setdefault(module, name)
            if a.arg in agreed["refused"]: yield f"{module}.{name}({a.arg}): call it {agreed['refused'][a.arg]}"
            if a.arg == "encoder" and a.annotation and "str" in ast.unparse(a.annotation):
                yield f"{module}.{name}(encoder) takes a name as well: call it backbone"
            allowed = agreed["concepts"].get(a.arg, [])[1:]
            if allowed and (default := defaults.get(a.arg)) is not None and default not in allowed:
                yield f"{module}.{name}({a.arg}={default}): its default is one of {', '.join(allowed)}, or tools/names.toml says otherwise"
        places = [agreed["order"].index(a.arg) for a in found if a.arg in agreed["order"]]
        if places != sorted(places): yield f"{module}.{name}: its arguments come in the order {', '.join(agreed['order'])}"
    for word, where in homes.items():
        if len(where) > 1 and word not in known:
            yield f"{' and '.join(f'{m}.{n}' for m, n in where.items())} have {word}: add it to tools/names.toml, or use the word that is there"


def skipped():
    "Every notebook is run by the tests."
    for path in Path("nbs").rglob(".notest"): yield f"{path} keeps notebooks from nbdev-test: delete it"
    for path in paths():
        if any(part[0] in "._" for part in path.parts):
            yield f"{path} is passed over by the tests: rename it without a leading `_` or `.`"
        nb = read_nb(path)
        tags = {tag for c in nb.cells for tag in c.metadata.get("tags", [])}
        if "skip-execution" in tags or any("skip_exec" in text for text in [json.dumps(nb.metadata), *(c.source for c in nb.cells)]):
            yield f"{path} uses skip_exec, which counts as passed though nothing ran: remove it"
        if str(nb_frontmatter(nb).get("eval")).lower() == "false":
            yield f"{path} has `eval: false` for the whole notebook: remove it"


def colab():
    "Each notebook opens in Colab: the badge that leads there, the one install cell, hidden and alone unrun, and no use of nbdev."
    source = "https://colab.research.google.com/github/{user}/{repo}/blob/{branch}".format_map(settings())
    for path in paths():
        found = read_nb(path).cells
        if not (len(found) > 1 and re.search(rf"\]\({source}/{re.escape(path.as_posix())}\)", found[1].source)):
            yield f"{path} does not link to itself in Colab: its second cell is `[![Open in Colab](...)]({source}/{path.as_posix()})`"
        if any(re.search(r"^\s*(?:from|import) +nbdev\b", c.source, re.M) for c in found if c.cell_type == "code"):
            yield f"{path} imports nbdev, which only developers have: use fastcore, or leave it to tools/"
    found = set()
    for where, cell in cells("code"):
        if cell.directive("eval") not in ("false", "False"): continue
        if not COLAB.search(cell.source): yield f"{where} is never run: drop `eval: false`, or flag it `#| slow` if it must wait"
        elif not cell.has_directive("hide"): yield f"{where} installs for Colab: add `#| hide`"
        found |= {where.split(" cell ")[0]} if COLAB.search(cell.source) else set()
    for path in paths():
        if str(path) not in found:
            yield f"{path} has no Colab install cell (`#| hide`, `#| eval: false`, `! [ -e /content ] && pip install ...`)"


def errors():
    "No stored output is an error or a warning."
    for where, out in outputs():
        if out.get("name") == "stderr": yield f"{where} stores {''.join(out['text'])[:60]!r} on stderr: remove its cause"
        if out["output_type"] == "error":
            yield f"{where} stores {out['ename']}: repair the cell and run the notebook again"


def sizes():
    "Stored outputs and notebooks are small."
    for where, out in outputs():
        size = len(json.dumps(out, ensure_ascii=False).encode())
        if size > OUTPUT_BYTES: yield f"{where} stores an output of {size:,} bytes, over {OUTPUT_BYTES:,}: show less of it"
    for path in paths():
        if (size := path.stat().st_size) > NOTEBOOK_BYTES:
            yield f"{path} has {size:,} bytes, over {NOTEBOOK_BYTES:,}: split it or show less"


def lengths():
    "No exported cell is long, and no exported line is wide."
    for where, cell in cells("code"):
        if not is_export(cell): continue
        lines = len(cell.source.strip().splitlines())
        if lines > EXPORT_LINES: yield f"{where} exports {lines} lines, over {EXPORT_LINES}: split it (`@patch` for a class)"
    for path in sorted(Path("rank_bert").glob("*.py")):
        if path.name == "_modidx.py": continue
        for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > WIDTH:
                yield f"{path}:{n} has {len(line)} characters, over {WIDTH}: break it where the thought breaks"


def lessons():
    "Each public symbol is explained before it is defined, and used by a visible test after it."
    for path in numbered():
        found, prose = read_nb(path).cells, ""
        for i, cell in enumerate(found):
            if cell.cell_type != "code" or not is_export(cell): continue
            public = definitions(ast.parse(cell.source).body)
            if not public: continue
            new = sentences(just_before(found, i))
            prose = new or prose
            if "exporti" in cell.directives: continue
            for node in public:
                where = f"{path} cell {cell.id}: {node.name}"
                if not (new and len(public) == 1 or re.search(rf"`[^`\n]*\b{node.name}\b[^`\n]*`", prose)):
                    yield f"{where} is not explained: a sentence of why before its cell, or its name in backticks in the one above"
                if not any(tested(found[i + 1:], calls(node))):
                    yield f"{where} has no lesson: a visible cell after it that uses it and asserts, or the cell after that does"
                yield from (f"{where}{o}" for o in undocumented(node, cell.source))


def just_before(found: list, i: int) -> list:
    "The prose that leads to a cell: nothing that a reader sees as code stands between."
    unseen = lambda c: c.cell_type == "code" and (c.directives.keys() & {"hide", "default_exp"} or is_export(c) and ("exporti" in c.directives or not definitions(ast.parse(c.source).body)))
    lead = [c for c in found[:i] if not unseen(c)]
    return list(takewhile(lambda c: c.cell_type == "markdown", reversed(lead)))


def tested(after: list, use: str):
    "Of each visible code cell that uses a name: whether it or the next one asserts."
    visible = [c.source for c in after if c.cell_type == "code" and not is_export(c) and not c.directives.keys() & {"hide", "eval"}]
    for source, following in zip(visible, [*visible[1:], ""]):
        if re.search(use, source): yield bool(re.search(r"\bassert\b|\btest_\w+\(|\bexpect_fail\(", source + following))


def undocumented(node, source: str):
    "What the documentation of a function or class, and of its public methods, lacks."
    comments = {t.start[0] for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT}
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and (m.name[0] != "_" or m.name in ("__init__", "__call__"))]
    for one in [node, *methods] if isinstance(node, ast.ClassDef) else [node]:
        at = "" if one is node else f".{one.name}"
        if one.name[0] != "_" and not ast.get_docstring(one): yield f"{at} has no docstring: one line that says what it does"
        if isinstance(one, ast.ClassDef): continue
        if any(ast.unparse(d).startswith("app.") for d in one.decorator_list): continue  # a command: its options carry their help
        args = [*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs, *filter(None, (one.args.vararg, one.args.kwarg))]
        lines = [one.lineno, *(o.lineno for o in args if o.arg not in ("self", "cls"))]
        for arg in args:
            if arg.arg in ("self", "cls") or arg.lineno in comments and lines.count(arg.lineno) == 1: continue
            yield f"{at}({arg.arg}) has no comment: a line of its own, with its shape, unit or meaning after `#`"


def pictures():
    "Each stored picture has a text for those who cannot see it."
    for where, cell in cells("code"):
        if any(k.startswith("image/") for out in cell.outputs for k in out.get("data", {})) and not cell.directive("fig-alt"):
            yield f"{where} shows a picture: begin the cell with `#| fig-alt: \"what it shows, and its finding\"`"


def stamps():
    "Benchmarks and experiments say of which run they are, and were run in full on the code they show."
    for path in filter(stamped, paths()):
        nb = read_nb(path)
        stamp = nb.metadata.get("rank_bert")
        again = f"run it again: `RANK_BERT_BENCHMARK=full RANK_BERT_DATA=folder OMP_NUM_THREADS=2 python tools/test.py -j 1 --save {path}`"
        if not stamp: yield f"{path} does not say when and where it was run; {again}"
        elif stamp["code"] != code_hash(nb): yield f"{path} shows outputs of other code than its own; {again}"
        elif not stamp["full"]: yield f"{path} stores a small run; {again}"


def names():
    "Notebooks say nothing of the machine they ran on."
    for where, out in outputs():
        if m := LOCAL_PATH.search(texts(out)): yield f"{where} shows the path {m[0]}: show the file's name only"
    for where, text in chain(((w, c.source) for w, c in cells()), ((w, texts(o)) for w, o in outputs())):
        if m := REGISTRY.search(text): yield f"{where} names a package registry ({m[0]}): leave it to pip's settings"


def metadata():
    "Version, name and description are said once, or the same everywhere."
    cfg, project = settings(), tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.search(r'^__version__ = "(.+)"', Path("rank_bert/__init__.py").read_text(encoding="utf-8"), re.M)
    if not version or version[1] != cfg["version"]: yield f"rank_bert/__init__.py does not say version {cfg['version']} of settings.ini"
    if project["name"] != cfg["lib_name"]: yield "pyproject.toml and settings.ini name the package differently"
    if project["requires-python"] != f">={cfg['min_python']}":
        yield f"pyproject.toml does not ask for Python >={cfg['min_python']} of settings.ini"
    first = read_nb("nbs/index.ipynb").cells[0].source
    if first.split() != f"# {cfg['lib_name']} > {cfg['description']}".split():
        yield "nbs/index.ipynb: its first cell must be `# name` and `> description` of settings.ini"
    if f"\nversion: {cfg['version']}\n" not in Path("CITATION.cff").read_text(encoding="utf-8"):
        yield f"CITATION.cff does not say version {cfg['version']} of settings.ini"
    if f"## {cfg['version']}" not in Path("CHANGELOG.md").read_text(encoding="utf-8"):
        yield f"CHANGELOG.md has no section for {cfg['version']}"


def wheel():
    "The built packages hold what they must and no more, and the sdist builds again."
    with tempfile.TemporaryDirectory() as folder:
        wheel, source = build(Path(folder))
        yield from in_wheel(zipfile.ZipFile(wheel))
        yield from in_sdist(tarfile.open(source))


def in_wheel(archive: zipfile.ZipFile):
    found = {n for n in archive.namelist() if ".dist-info/" not in n}
    wanted = {p.as_posix() for p in sources()}
    for name in sorted(wanted - found): yield f"the wheel lacks {name}: see `packages` in setup.py"
    for name in sorted(found - wanted): yield f"the wheel holds {name}, no part of the package: see `packages` in setup.py"
    info = {n.split("/", 1)[1]: n for n in archive.namelist() if ".dist-info/" in n}
    if "licenses/LICENSE" not in info: yield "the wheel lacks LICENSE"
    points = archive.read(info["entry_points.txt"]).decode() if "entry_points.txt" in info else ""
    for line in (settings()["console_scripts"].replace("=", " = "), "rank_bert = rank_bert._modidx:d"):
        if line not in points: yield f"the wheel lacks the entry point `{line}`: see setup.py"


def in_sdist(archive: tarfile.TarFile):
    found = {m.name.split("/", 1)[1] for m in archive.getmembers() if m.isfile()}
    wanted = {p.as_posix() for p in sources()} | {"settings.ini", "setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"}
    extra = {"PKG-INFO", "setup.cfg", "CHANGELOG.md"}
    for name in sorted(wanted - found): yield f"the sdist lacks {name}: include it in MANIFEST.in"
    for name in sorted(found - wanted - extra):
        if ".egg-info/" not in name: yield f"the sdist holds {name}: prune it in MANIFEST.in"


def workflows():
    "The workflows of GitHub are pinned, grant little, and hold no logic."
    from workflows import files, problems
    for path in files(): yield from (f"{path.relative_to(ROOT)}: {o}" for o in problems(path))


def light():
    "Importing the package and asking the command for help load no heavy library."
    script = Path(sys.executable).with_name("rank_bert")
    commands = [["-c", "import rank_bert"], ["-m", "rank_bert.cli", "--help"]] + ([[str(script), "--help"]] if script.exists() else [])
    for command in commands:
        said = " ".join(["rank_bert" if o == str(script) else o for o in command])
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPROFILEIMPORTTIME": "1"})
        if done.returncode:
            yield f"`{said}` failed:\n" + "\n".join(o for o in done.stderr.splitlines() if not o.startswith("import time:"))[-1500:]
            continue
        times = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", done.stderr, re.M)
        if heavy := HEAVY & {name.split(".")[0] for _, name in times}:
            yield f"`{said}` loads {' and '.join(sorted(heavy))}: import inside the function that needs it"
        print(f"   light: `{said}` imports {len(times)} modules in {sum(int(t) for t, _ in times)/1e6:.2f} s")


CHECKS = {f.__name__: f for f in (exported, clean, readme, order, private, parameters, lessons, skipped, colab, errors, sizes, lengths, pictures, stamps, names,
                                  metadata, wheel, workflows, light)}


def passes(name: str) -> bool:
    "Run one check and say how it went; a check that breaks has failed."
    try: problems = list(CHECKS[name]())
    except (Exception, SystemExit) as e: problems = [f"{type(e).__name__}: {e}"]
    for problem in problems: print(f"FAIL {name}: {problem}", flush=True)
    if not problems: print(f"ok {name}", flush=True)
    return not problems


def main(chosen: list[str]) -> int:
    if unknown := [n for n in chosen if n not in CHECKS]:
        print(f"no check named {', '.join(unknown)}; there are: {' '.join(CHECKS)}", file=sys.stderr)
        return 2
    os.chdir(ROOT)
    results = [passes(name) for name in chosen or CHECKS]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__": sys.exit(main(sys.argv[1:]))
