"""The house rules that no notebook can test about itself: `python tools/check.py [NAME ...]`.

A check is a function that yields what is wrong, with the remedy; its name is the function's. It says `ok NAME` or
`FAIL NAME: what and the remedy`, and the last line is `N passed, N failed`.
"""
import ast, io, json, os, re, subprocess, sys, tarfile, tempfile, tokenize, tomllib, zipfile
from functools import cache
from itertools import chain, takewhile
from pathlib import Path

from fastcore.nbio import nb_frontmatter, read_nb
from IPython.core.inputtransformer2 import TransformerManager

import measure
from release import ROOT, build, section, settings
from stored import code_hash, stamped

OUTPUT_BYTES, NOTEBOOK_BYTES = 20_000, 200_000
EXPORT_LINES = 60
PROSE_WORDS = 120
DEMO_ASSERTS = 6
HEAVY = {"torch", "fastai"}
EXPORTS = {"export", "exporti", "exports"}
DEFS = ast.FunctionDef | ast.AsyncFunctionDef
ASSERTION = re.compile(r"\bassert\b|\btest_\w+\(|\bexpect_fail\(")
COLAB = re.compile(r"^\s*! ?\[ -e /content \] && pip install .*rank_bert", re.M)
LOCAL_PATH = re.compile(r"(?<![\w.:/-])/(?:home|root|tmp|work|Users|private|mnt|opt|usr|var|srv|workspace)/[\w.-]*|"
                        r"[A-Z]:\\\\?Users\\")
REGISTRY = re.compile(r"index[-_]url|find[-_]links|https?://[^\s\"]*/simple/")  # each machine's own business
COMMAND = re.compile(r"(?:pip install|(?:python )?(?P<script>[\w./-]+))(?: [\w./=\"-]+)*")  # no shell in it
PINNED = re.compile(r"uses: [\w./-]+@[0-9a-f]{40} # v\d[\d.]*\n")


# What the checks look at

def paths() -> list[Path]:
    "Every notebook, those that the test run would pass over too; not the copies that `--fresh` works on."
    found = sorted(Path("nbs").rglob("*.ipynb"))
    return [p for p in found if ".ipynb_checkpoints" not in p.parts and not p.name.startswith(".fresh-")]


def numbered() -> list[Path]:
    return [p for p in paths() if re.match(r"\d\d[a-z]?_", p.name)]


def modules() -> list[Path]:
    return [p for p in sorted(Path("rank_bert").rglob("*.py")) if p.name != "_modidx.py"]


def dotted(path: Path) -> str:
    "A module's name below the package: `rankers.search`."
    return ".".join(path.relative_to("rank_bert").with_suffix("").parts)


notebook = cache(read_nb)
tree = cache(lambda path: ast.parse(path.read_text(encoding="utf-8")))


def cells(kind: str, among=paths):
    "(where, cell) of every cell of a type."
    return ((f"{p} cell {c.id}", c) for p in among() for c in notebook(p).cells if c.cell_type == kind)


def outputs():
    "(where, output) of every stored output."
    return ((where, out) for where, cell in cells("code") for out in cell.outputs)


def texts(out: dict) -> str:
    "The readable parts of an output; pictures are left out, their base64 spells anything."
    parts = [out.get("text", ""), out.get("evalue", ""), out.get("traceback", "")]
    parts += [v for k, v in out.get("data", {}).items() if not k.startswith("image/") or "svg" in k]
    return "\n".join(json.dumps(p, ensure_ascii=False) if isinstance(p, dict) else "".join(p) for p in parts)


def module(path: Path) -> str:
    "The module a notebook exports to, or ''."
    return next((c.directive("default_exp") for c in notebook(path).cells if c.has_directive("default_exp")), "")


def imported(source: str) -> set[str]:
    "The rank_bert modules that a cell imports, IPython magics allowed."
    found = set()
    for node in ast.walk(ast.parse(TransformerManager().transform_cell(source))):
        if isinstance(node, ast.Import): found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(filter(None, ["rank_bert" if node.level else "", node.module]))
            found |= {f"{base}.{a.name}" for a in node.names if a.name[:2] != "__"} if base == "rank_bert" else {base}
    return {name.removeprefix("rank_bert.") for name in found if name.startswith("rank_bert.")}


def is_export(cell) -> bool:
    return bool(cell.directives.keys() & EXPORTS)


def demonstrations():
    "(where, cell) of every visible code cell of the numbered notebooks that is neither exported nor folded."
    apart = EXPORTS | {"hide", "default_exp", "eval", "code-fold"}
    return ((where, c) for where, c in cells("code", numbered) if c.source.strip() and not c.directives.keys() & apart)


def words(cell) -> int:
    "Words of a Markdown cell, badges aside."
    return len(re.sub(r"\[!\[.*", "", cell.source).split())


def definitions(body: list) -> list:
    "The public functions and classes among statements."
    return [n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name[0] != "_"]


def is_patch(node) -> bool:
    return any("patch" in ast.unparse(d) for d in node.decorator_list)


def sentences(cells: list) -> str:
    "The prose of Markdown cells: what is neither heading, description line nor badge."
    prose = (c.source for c in cells if c.cell_type == "markdown")
    return re.sub(r"^([#>].*|\[!\[.*)$", "", "\n".join(prose), flags=re.M).strip()


def changed_by(act, pattern: str) -> list[Path]:
    "The files of a pattern that `act` changes, makes or deletes."
    read = lambda: {p: p.read_bytes() for p in Path().glob(pattern)}
    before, _, after = read(), act(), read()
    return [p for p in sorted(before.keys() | after.keys()) if before.get(p) != after.get(p)]


# The checks

def exported():
    "The package is what its notebooks export."
    from nbdev.doclinks import nbdev_export
    for path in changed_by(nbdev_export.__wrapped__, "rank_bert/**/*.py"):
        yield f"{path} was not what the notebooks export; written anew, commit it"
    known = {m.replace(".", "/") for m in map(module, paths()) if m} | {"__init__", "__main__", "_modidx"}
    known |= {f"{name.rpartition('/')[0]}/__init__" for name in known if "/" in name}  # of folders, empty
    for path in Path("rank_bert").rglob("*.py"):
        if path.relative_to("rank_bert").with_suffix("").as_posix() not in known:
            yield f"{path} is exported by no notebook: delete it, or give it one"


def clean():
    "nbdev-clean has nothing to do."
    from nbdev.clean import nbdev_clean
    for path in changed_by(nbdev_clean.__wrapped__, "nbs/**/*.ipynb"):
        yield f"{path} held run counts or editor metadata; cleaned, commit it"


def readme():
    "README.md is what nbs/index.ipynb gives."
    from readme import write
    if changed_by(write, "README.md"): yield "README.md was not what nbs/index.ipynb gives; written anew, commit it"


def order():
    "Exported code imports earlier notebooks of its folder, and the folders that tools/house.toml allows; no circle."
    house = tomllib.loads(Path("tools/house.toml").read_text(encoding="utf-8"))
    home, numbers = {module(p): p for p in numbered()}, {}
    for path in numbered():
        number = re.match(r"\d\d[a-z]?", path.name)[0]
        if (first := numbers.setdefault((path.parent, number), path)) != path: yield f"{path} has the number of {first}"
        if (folder := path.parent.relative_to("nbs").as_posix().removeprefix(".")) not in house["folders"]:
            yield f"{path}: tools/house.toml has no folder {folder}"
    for where, cell in cells("code", numbered):
        path = Path(where.split(" cell ")[0])
        folder = path.parent.relative_to("nbs").as_posix().removeprefix(".")
        may = {folder, *house["folders"][folder]["may"]}
        if not folder: may |= {o for number, more in house["later"].items() if path.name >= number for o in more}
        for name in sorted(imported(cell.source)):
            if name not in home: yield f"{where} imports rank_bert.{name}, which no numbered notebook exports"
            elif not is_export(cell): continue  # a lesson may look ahead
            elif home[name].parent == path.parent and home[name].name >= path.name:
                yield f"{where} imports rank_bert.{name} of {home[name]}: move what it needs to an earlier notebook"
            elif not may & {"*", name.rpartition(".")[0]}:
                yield f"{where} imports rank_bert.{name}: tools/house.toml does not allow it from {folder or 'the top'}"
    for ring in measure.circles(measure.read_package(ROOT)):
        yield f"{', '.join(sorted(ring))} import one another: move what they share below them"


def private():
    "A name with an underscore stays in its module."
    for path in modules():
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.ImportFrom) or not (node.level or node.module.startswith("rank_bert")): continue
            for name in (a.name for a in node.names if a.name[0] == "_" and a.name[:2] != "__"):
                yield f"{path}:{node.lineno} imports {name}: drop its underscore, in a cell flagged `#| exporti`"


def methods(path: Path):
    "(class, method, line) of every method in a module, also of those that `@patch` adds."
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef):
            own = (n for n in node.body if isinstance(n, DEFS) and not n.decorator_list)
            yield from ((node.name, n.name, n.lineno) for n in own)
        elif isinstance(node, DEFS) and any(ast.unparse(d).split("(")[0] == "patch" for d in node.decorator_list):
            yield ast.unparse(node.args.args[0].annotation).strip("'"), node.name, node.lineno


def patches():
    "A class has one method of a name: a second one that `@patch` adds, in any module, would replace the first."
    homes = {}
    for path in modules():
        for owner, name, line in methods(path):
            if (at := homes.setdefault((owner, name), f"{path}:{line}")) != f"{path}:{line}":
                yield f"{path}:{line} replaces {owner}.{name} of {at}: give it another name"


def public(path: Path) -> set[str]:
    "The names in `__all__` of a module."
    found = (n.value for n in tree(path).body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__")
    return {name for value in found if isinstance(value, ast.List) for name in ast.literal_eval(value)}


def signatures():
    "(module, name, AST arguments) of every public function, and of every class and method without an underscore."
    for path in modules():
        for node in definitions(tree(path).body):
            if isinstance(node, ast.FunctionDef):
                if node.name in public(path) or is_patch(node): yield dotted(path), node.name, node.args
            else:  # the makers of Learners give classes that are not in `__all__`
                for m in node.body:
                    if isinstance(m, ast.FunctionDef) and (m.name == "__init__" or m.name[0] != "_"):
                        yield dotted(path), f"{node.name}.{m.name}", m.args


def parameters():
    "One word for one thing: the parameters of public functions are called, ordered and set as tools/names.toml says."
    agreed, homes = tomllib.loads(Path("tools/names.toml").read_text(encoding="utf-8")), {}
    known = {*agreed["concepts"], *agreed["plain"]["names"].split()}
    for module, name, args in signatures():
        found = [a for a in [*args.posonlyargs, *args.args, *args.kwonlyargs] if a.arg not in ("self", "cls")]
        defaults = {a.arg: ast.unparse(d) for a, d in zip(reversed(args.args), reversed(args.defaults))}
        for a in found:
            homes.setdefault(a.arg, {}).setdefault(module, name)
            if a.arg in agreed["refused"]: yield f"{module}.{name}({a.arg}): call it {agreed['refused'][a.arg]}"
            if a.arg == "encoder" and a.annotation and "str" in ast.unparse(a.annotation):
                yield f"{module}.{name}(encoder) takes a name as well: call it backbone"
            allowed, default = agreed["concepts"].get(a.arg, [])[1:], defaults.get(a.arg)
            if allowed and default and default not in allowed:
                yield f"{module}.{name}({a.arg}={default}): tools/names.toml has the defaults {', '.join(allowed)}"
        if len(found) > 12:
            yield f"{module}.{name} has {len(found)} parameters, over 12: take those of others by `**kwargs`"
        places = [agreed["order"].index(a.arg) for a in found if a.arg in agreed["order"]]
        if places != sorted(places): yield f"{module}.{name}: arguments come in the order {', '.join(agreed['order'])}"
    for word, where in homes.items():
        if len(where) > 1 and word not in known:
            users = " and ".join(f"{m}.{n}" for m, n in where.items())
            yield f"{users} have {word}: add it to tools/names.toml, or use the word that is there"


def skipped():
    "Every notebook is run by the tests."
    for path in Path("nbs").rglob(".notest"): yield f"{path} keeps notebooks from nbdev-test: delete it"
    for path in paths():
        nb = notebook(path)
        if any(part[0] in "._" for part in path.parts):
            yield f"{path} is passed over by the tests: rename it without a leading `_` or `.`"
        if re.search("skip_exec|skip-execution", json.dumps([nb.metadata, [(c.metadata, c.source) for c in nb.cells]])):
            yield f"{path} uses skip_exec, which counts as passed though nothing ran: remove it"
        if str(nb_frontmatter(nb).get("eval")).lower() == "false":
            yield f"{path} has `eval: false` for the whole notebook: remove it"


def colab():
    "Each notebook opens in Colab: a badge that leads there, one install cell, hidden and alone unrun; no use of nbdev."
    source = "https://colab.research.google.com/github/{user}/{repo}/blob/{branch}".format_map(settings())
    for path in paths():
        found, link = notebook(path).cells, f"{source}/{path.as_posix()}"
        if f"]({link})" not in found[1].source:
            yield f"{path} does not link to itself in Colab: its second cell is `[![Open in Colab](...)]({link})`"
        code = [c for c in found if c.cell_type == "code"]
        if any(re.search(r"^\s*(?:from|import) +nbdev\b", c.source, re.M) for c in code):
            yield f"{path} imports nbdev, which only developers have: use fastcore, or leave it to tools/"
        unrun = [c for c in code if c.directive("eval") in ("false", "False")]
        for c in unrun:
            where = f"{path} cell {c.id}"
            if not COLAB.search(c.source): yield f"{where} is never run: drop `eval: false`, or flag it `#| slow`"
            elif not c.has_directive("hide"): yield f"{where} installs for Colab: add `#| hide`"
        if not any(COLAB.search(c.source) for c in unrun):
            yield f"{path} has no install cell (`#| hide`, `#| eval: false`, `! [ -e /content ] && pip install ...`)"


def errors():
    "No stored output is an error or a warning."
    for where, out in outputs():
        if out.get("name") == "stderr": yield f"{where} stores {''.join(out['text'])[:60]!r} on stderr: mend its cause"
        if out["output_type"] == "error": yield f"{where} stores {out['ename']}: repair the cell and run it again"


def sizes():
    "Stored outputs and notebooks are small."
    for where, out in outputs():
        size = len(json.dumps(out, ensure_ascii=False).encode())
        if size > OUTPUT_BYTES: yield f"{where} stores an output of {size:,} bytes, over {OUTPUT_BYTES:,}: show less"
    for path in paths():
        size = path.stat().st_size
        if size > NOTEBOOK_BYTES: yield f"{path} has {size:,} bytes, over {NOTEBOOK_BYTES:,}: split it or show less"


def lengths():
    "Cells that are read at a glance: exports, prose and demonstrations."
    for where, cell in cells("code"):
        if not is_export(cell): continue
        nodes = ast.parse(TransformerManager().transform_cell(cell.source))
        def long(node): return node.end_lineno - node.lineno + 1
        whole = sum(long(n) for n in nodes.body if isinstance(n, ast.ClassDef))  # a class is whole, however long
        lines = len(cell.source.strip().splitlines()) - 1 - whole  # without its directive
        if lines > EXPORT_LINES: yield f"{where} exports {lines} lines beside classes, over {EXPORT_LINES}: split it"
        for node in (n for n in ast.walk(nodes) if isinstance(n, DEFS) and long(n) > EXPORT_LINES):
            yield f"{where}: {node.name} has {long(node)} lines, over {EXPORT_LINES}: split it"
    for where, cell in cells("markdown", numbered):
        if (n := words(cell)) > PROSE_WORDS: yield f"{where} has {n} words, over {PROSE_WORDS}: split it, or say less"
    for where, cell in demonstrations():
        if (n := len(ASSERTION.findall(cell.source))) > DEMO_ASSERTS:
            yield f"{where} has {n} assertions, over {DEMO_ASSERTS}: prove in a cell under `#| code-fold: true`"


def style():
    "No line is wide and no import idle: ruff, with what pyproject.toml sets; `__all__` is as wide as nbdev makes it."
    for said in tool("ruff", "check", "-q", "--output-format=concise"):
        yield from (line for line in said.splitlines() if not is_list_of_names(line))


def is_list_of_names(complaint: str) -> bool:
    "Whether ruff finds a line of `__all__` too wide."
    at = re.match(r"(rank_bert/[\w/]+\.py):(\d+):\d+: E501", complaint)
    return bool(at) and Path(at[1]).read_text(encoding="utf-8").splitlines()[int(at[2]) - 1].startswith("__all__ = ")


def tool(name: str, *arguments: str):
    "What a tool of this environment complains of."
    command = Path(sys.executable).with_name(name)
    if not command.exists(): yield f"{name} is not installed: `pip install -e '.[dev]'`"
    else:
        done = subprocess.run([command, *arguments], capture_output=True, text=True)
        if done.returncode: yield (done.stdout.strip() or done.stderr.strip())


def lessons():
    "Each public symbol is explained before it is defined, and used by a visible test after it."
    for path in numbered():
        found, prose = notebook(path).cells, ""
        for i, cell in enumerate(found):
            defined = definitions(ast.parse(cell.source).body) if cell.cell_type == "code" and is_export(cell) else []
            if not defined: continue
            new = sentences(just_before(found, i))
            prose = new or prose
            if "exporti" in cell.directives: continue
            for node in defined:
                where = f"{path} cell {cell.id}: {node.name}"
                if not (new and len(defined) == 1 or re.search(rf"`[^`\n]*\b{node.name}\b[^`\n]*`", prose)):
                    yield f"{where} is not explained: a sentence of why before its cell, or its name in backticks above"
                use = (r"\." if is_patch(node) else r"\b") + node.name + r"\b"
                if not any(tested(found[i + 1:], use)):
                    yield f"{where} has no lesson: a visible cell after it that uses it and asserts, or the next does"
                yield from (f"{where}{o}" for o in undocumented(node, cell.source))


def just_before(found: list, i: int) -> list:
    "The prose that leads to a cell: nothing that a reader sees as code stands between."
    def unseen(c) -> bool:
        internal = is_export(c) and ("exporti" in c.directives or not definitions(ast.parse(c.source).body))
        return internal or bool(c.directives.keys() & {"hide", "default_exp"})
    lead = (c for c in reversed(found[:i]) if c.cell_type != "code" or not unseen(c))
    return list(takewhile(lambda c: c.cell_type == "markdown", lead))


def tested(after: list, use: str):
    "Of each visible code cell that uses a name: whether it or the next one asserts."
    shown = [c for c in after if c.cell_type == "code" and not c.directives.keys() & (EXPORTS | {"hide", "eval"})]
    visible = [c.source for c in shown]
    for source, following in zip(visible, [*visible[1:], ""]):
        if re.search(use, source): yield bool(ASSERTION.search(source + following))


def undocumented(node, source: str):
    "What the documentation of a function or class, and of its public methods, lacks."
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {t.start[0] for t in tokens if t.type == tokenize.COMMENT}
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef)] if isinstance(node, ast.ClassDef) else []
    for one in [node, *(m for m in methods if m.name[0] != "_" or m.name in ("__init__", "__call__"))]:
        at = "" if one is node else f".{one.name}"
        if one.name[0] != "_" and not ast.get_docstring(one): yield f"{at} has no docstring: one line on what it does"
        command = any(ast.unparse(d).startswith("app.") for d in one.decorator_list)  # its options carry their help
        if isinstance(one, ast.ClassDef) or command: continue
        a = one.args
        args = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
        args = [o for o in args if o.arg not in ("self", "cls")]
        lines = [one.lineno, *(o.lineno for o in args)]
        for arg in args:
            if arg.lineno not in comments or lines.count(arg.lineno) > 1:
                yield f"{at}({arg.arg}) has no comment: a line of its own, with its shape, unit or meaning after `#`"


def pictures():
    "Each stored picture has a text for those who cannot see it."
    for where, cell in cells("code"):
        kinds = chain.from_iterable(out.get("data", {}) for out in cell.outputs)
        if any(k.startswith("image/") for k in kinds) and not cell.directive("fig-alt"):
            yield f"{where} shows a picture: begin the cell with `#| fig-alt: \"what it shows, and its finding\"`"


def stamps():
    "Benchmarks, experiments and explanations say of which run they are, and ran in full on the code they show."
    settings = "RANK_BERT_BENCHMARK=full RANK_BERT_DATA=folder OMP_NUM_THREADS=2"
    for path in filter(stamped, paths()):
        nb = notebook(path)
        stamp = nb.metadata.get("rank_bert")
        wrong = "does not say when and where it was run" if not stamp else \
            "shows outputs of other code than its own" if stamp["code"] != code_hash(nb) else \
            "stores a small run" if not stamp["full"] else ""
        if wrong: yield f"{path} {wrong}; run it again: `{settings} python tools/test.py -j 1 --save {path}`"


CLAIM = re.compile(r"\b(no|an?)\b[^.:]{0,40}\b(gain|loss|difference|effect|change|correlation|help|harm)s?\b"
                   r"[^.:]{0,30}\b(shown|found)\b|\bno difference\b", re.I)
TEST = re.compile(r"paired_test|bootstrap_interval|permutation|holm|against=|index_staleness|randomi[sz]ation")
FIGURE = re.compile(r"\*p\*|\bp [=<>]|\bp of\b|\[[-−+.\d]+, [-−+.\d]+\]|interval|adjust|Holm|seeds|tested", re.I)


def claims():
    "Pages of figures that say what is shown, or that no difference is, make a test; `the reason` stands beside one."
    for path in filter(stamped, paths()):
        nb = notebook(path)
        tested = any(TEST.search(c.source) for c in nb.cells if c.cell_type == "code")
        for cell in (c for c in nb.cells if c.cell_type == "markdown"):
            for said in re.split(r"\n\s*\n|\n- ", cell.source):
                if CLAIM.search(said) and not (tested or FIGURE.search(said)):
                    yield f"{path} {cell.id} says what is shown, and the page makes no test: {said.strip()[:80]!r}"
                if re.search(r"\bthe reason\b", said) and not re.search("tested|trials?|experiment", said):
                    yield f"{path} {cell.id} names a reason that no test stands beside: {said.strip()[:80]!r}"


def names():
    "Notebooks say nothing of the machine they ran on."
    shown = [(where, texts(out)) for where, out in outputs()]
    for where, text in shown:
        if m := LOCAL_PATH.search(text): yield f"{where} shows the path {m[0]}: show the file's name only"
    for where, text in [*((w, c.source) for kind in ("code", "markdown") for w, c in cells(kind)), *shown]:
        if m := REGISTRY.search(text): yield f"{where} names a package registry ({m[0]}): leave it to pip's settings"


def metadata():
    "Version, name and description are said once, or the same everywhere; before a release, the tag and the date too."
    read = lambda file: Path(file).read_text(encoding="utf-8")
    cfg, toml = settings(), tomllib.loads(read("pyproject.toml"))
    project, nbdev = toml["project"], toml["tool"]["nbdev"]
    version, (heading, notes) = cfg["version"], section(cfg["version"])
    same = {"rank_bert/__init__.py": f'\n__version__ = "{version}"\n', "CITATION.cff": f"\nversion: {version}\n"}
    for file, line in same.items():
        if line not in "\n" + read(file): yield f"{file} does not say version {version} of settings.ini"
    if not notes: yield f"CHANGELOG.md has no text under `## {version}`"
    urls = {"Repository": cfg["git_url"], "Documentation": cfg["doc_host"] + cfg["doc_baseurl"]}
    pairs = [(project["name"], cfg["lib_name"]), (project["requires-python"], f">={cfg['min_python']}"),
             (project["urls"], urls), *((nbdev[key], cfg[key]) for key in ("nbs_path", "lib_path"))]
    for here, there in pairs:
        if here != there: yield f"pyproject.toml says {here}, and settings.ini {there}"
    first = notebook(Path("nbs/index.ipynb")).cells[0].source
    if first.split() != f"# {cfg['lib_name']} > {cfg['description']}".split():
        yield "nbs/index.ipynb: its first cell must be `# name` and `> description` of settings.ini"
    if os.environ.get("GITHUB_REF_TYPE") != "tag": return
    tag = os.environ["GITHUB_REF_NAME"]
    if tag != f"v{version}": yield f"the tag {tag} is not v{version} of settings.ini: delete it, or change the version"
    if "unreleased" in heading.lower(): yield f"CHANGELOG.md says `unreleased` of {version}: write the date"


def wheel():
    "The built packages hold what they must and no more, and the sdist builds again."
    package = {p.as_posix() for p in [*Path("rank_bert").rglob("*.py"), *Path("rank_bert/pages").iterdir()]}
    top = {"settings.ini", "setup.py", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "CHANGELOG.md"}
    with tempfile.TemporaryDirectory() as folder:
        files = build(Path(folder))
        with zipfile.ZipFile(files[0]) as archive:
            held = set(archive.namelist())
            info = next(n for n in held if n.endswith(".dist-info/METADATA")).removesuffix("METADATA")
            points = archive.read(f"{info}entry_points.txt").decode()
        with tarfile.open(files[1]) as archive:
            source = {m.name.split("/", 1)[1] for m in archive.getmembers() if m.isfile()}
    source = {n for n in source if ".egg-info/" not in n} - {"PKG-INFO", "setup.cfg"}
    for name in sorted(package ^ {n for n in held if not n.startswith(info)}):
        yield f"the wheel {'lacks' if name in package else 'holds'} {name}: see `packages` in setup.py"
    for name in sorted((package | top) ^ source):
        yield f"the sdist {'holds' if name in source else 'lacks'} {name}: see MANIFEST.in"
    if f"{info}licenses/LICENSE" not in held: yield "the wheel lacks LICENSE"
    for line in (settings()["console_scripts"].replace("=", " = "), "rank_bert = rank_bert._modidx:d"):
        if line not in points: yield f"the wheel lacks the entry point `{line}`: see setup.py"


def workflows():
    "The workflows of GitHub are safe, as zizmor sees it; they end, and hold no logic that a checkout could not run."
    yield from tool("zizmor", "--offline", "--no-progress", "--persona=pedantic", "--format=plain", ".github")
    import yaml
    for path in sorted(Path(".github/workflows").iterdir()):
        text = path.read_text(encoding="utf-8")
        if text.count("uses: ") != len(PINNED.findall(text)): yield f"{path}: write beside each pin ` # v1.2.3`"
        for name, job in yaml.safe_load(text)["jobs"].items():
            if "timeout-minutes" not in job: yield f"{path}: job {name} has no `timeout-minutes`"
            for run in (step["run"] for step in job.get("steps", []) if "run" in step):
                found = COMMAND.fullmatch(run)
                if not found or found["script"] and not Path(found["script"]).is_file():
                    yield f"{path}: job {name}: `{run}` is not one command, a script of ours or `pip install`"


def light():
    "Importing the package and asking the command for help load no heavy library."
    for command in (["-c", "import rank_bert"], [str(Path(sys.executable).with_name("rank_bert")), "--help"]):
        env, said = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}, Path(command[0]).name + " " + command[1]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=env)
        times = re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\w+)", done.stderr, re.M)
        if done.returncode: yield f"`{said}` failed:\n" + re.sub("import time:.*\n", "", done.stderr)[-1500:]
        elif heavy := HEAVY & {name for _, name in times}:
            yield f"`{said}` loads {' and '.join(sorted(heavy))}: import inside the function that needs it"
        else: print(f"   light: `{said}` imports {len(times)} modules in {sum(int(t) for t, _ in times)/1e6:.2f} s")


CHECKS = {f.__name__: f for f in (exported, clean, readme, order, private, patches, parameters, lessons, skipped,
                                  colab, errors, sizes, lengths, style, pictures, stamps, claims, names, metadata,
                                  wheel, workflows, light)}


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
