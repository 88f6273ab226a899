"""How the package is built, in figures: `python tools/measure.py [MODULE ...] [--root FOLDER] [--names]`.

One line for each measure, over all modules or over those named (`models`, `read.tags`). `--root` measures another
checkout, `--names` lists what is counted: private functions used once, long functions, names used nowhere else.
"""
import argparse, ast, re, tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from fastcore.nbio import read_nb

DEFS = ast.FunctionDef | ast.AsyncFunctionDef
HOUSE = tomllib.loads(Path(__file__).with_name("house.toml").read_text(encoding="utf-8"))


@dataclass
class Module:
    "A module, what it defines and what it imports"
    name: str                      # dotted, below the package
    text: str
    tree: ast.Module
    notebook: str = ""             # its place in the order: folder and number
    functions: list = field(default_factory=list)  # (function, class or '')
    uses: Counter = field(default_factory=Counter)  # name or attribute -> times it is read
    imports: set = field(default_factory=set)       # (module of the package, whether inside a function)


def read(path: Path, package: Path) -> Module:
    "One module, with its functions, uses and imports."
    text = path.read_text(encoding="utf-8")
    name = ".".join(path.relative_to(package).with_suffix("").parts)
    found = Module(name, text, ast.parse(text))
    source = re.search(r"File to edit: (\S+?\.ipynb)", text)
    found.notebook = source[1].rpartition("nbs/")[2] if source else ""
    above = {child: node for node in ast.walk(found.tree) for child in ast.iter_child_nodes(node)}

    def inside(node, kinds):
        while node in above:
            node = above[node]
            if isinstance(node, kinds): return node
        return None

    for node in ast.walk(found.tree):
        if isinstance(node, DEFS):
            owner = inside(node, ast.ClassDef)
            found.functions.append((node, owner.name if owner else ""))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load): found.uses[node.id] += 1
        elif isinstance(node, ast.Attribute): found.uses[node.attr] += 1
        elif isinstance(node, ast.alias): found.uses[node.name] += 1
        if isinstance(node, ast.ImportFrom):
            within = inside(node, DEFS) is not None
            if node.level:
                base = name.split(".")[:-node.level]
                stem = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
                stems = [stem] if node.module else [".".join([*base, a.name]) for a in node.names]
                found.imports |= {(o, within) for o in stems}
            elif (node.module or "").startswith("rank_bert."):
                found.imports.add((node.module.removeprefix("rank_bert."), within))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if m := re.fullmatch(r"rank_bert\.([\w.]+)", node.value): found.imports.add((m[1], True))
    return found


def read_package(root: Path) -> dict[str, Module]:
    "All modules of the package that notebooks export."
    package = root/"rank_bert"
    paths = [p for p in sorted(package.rglob("*.py")) if p.stem not in ("_modidx", "__init__", "__main__")]
    return {m.name: m for m in (read(p, package) for p in paths)}


def circles(modules: dict[str, Module]) -> list[set[str]]:
    "Groups of modules that import one another, directly or not."
    graph = {n: {i for i, _ in m.imports if i in modules and i != n} for n, m in modules.items()}
    reach = {n: set(to) for n, to in graph.items()}
    for middle in graph:
        for n in graph:
            if middle in reach[n]: reach[n] |= reach[middle]
    groups = {frozenset(o for o in reach[n] if n in reach[o]) for n in graph}
    return sorted((set(g) for g in groups if len(g) > 1), key=len)


def public(module: Module) -> list[str]:
    "The names in `__all__`."
    for node in module.tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return [e.value for e in node.value.elts]
    return []


def elsewhere(root: Path) -> dict[str, str]:
    "The code and prose of every notebook, by its path below `nbs`."
    nbs = root/"nbs"
    paths = [p for p in sorted(nbs.rglob("*.ipynb"))
             if ".ipynb_checkpoints" not in p.parts and not p.name.startswith(".fresh-")]
    return {p.relative_to(nbs).as_posix(): "\n".join(c.source for c in read_nb(p).cells) for p in paths}


def patched(fn) -> str:
    "The class that a function is patched onto, or ''."
    if not any(getattr(d, "id", "") == "patch" or getattr(getattr(d, "func", None), "id", "") == "patch"
               for d in fn.decorator_list): return ""
    return ast.unparse(fn.args.args[0].annotation) if fn.args.args and fn.args.args[0].annotation else "?"


def arguments(fn) -> int:
    "How many parameters a caller may give."
    a = fn.args
    given = [*a.posonlyargs, *a.args, *a.kwonlyargs]
    return len([o for o in given if o.arg not in ("self", "cls")])


def length(fn) -> int: return fn.end_lineno - fn.lineno + 1


def measure(root: Path, only: list[str]) -> tuple[list[tuple[str, str]], dict[str, list[str]]]:
    "(measure, value) of a checkout, and the names behind them."
    everything = read_package(root)
    modules = {n: m for n, m in everything.items() if not only or n in only}
    if lost := set(only) - set(everything): raise SystemExit(f"no module {sorted(lost)[0]!r}")
    uses = sum((m.uses for m in everything.values()), Counter())
    imported = Counter(a.name for m in everything.values() for o in ast.walk(m.tree)
                       if isinstance(o, ast.ImportFrom) and o.level for a in o.names)
    classes = {n: {o.name for o in ast.walk(m.tree) if isinstance(o, ast.ClassDef)} for n, m in modules.items()}
    fns = [(n, f, owner) for n, m in modules.items() for f, owner in m.functions]
    def times(n, f, owner): return (uses if owner or patched(f) else modules[n].uses + imported)[f.name]
    private = [(n, f) for n, f, owner in fns
               if f.name.startswith("_") and not f.name.endswith("__") and times(n, f, owner) <= 1]
    long = [(n, f) for n, f, _ in fns if length(f) > 40]
    patches = [(n, f, patched(f)) for n, f, _ in fns if patched(f)]
    own = [(n, f) for n, f, c in patches if c in classes[n]]
    names = {n: public(m) for n, m in modules.items()}
    said = [(n, o) for n, found in names.items() for o in found]
    places = elsewhere(root)
    unused = [(n, o) for n, o in said if n != "all" and not any(
        re.search(rf"\b{re.escape(o)}\b", t) for path, t in places.items() if path != modules[n].notebook)]
    widest = max(((arguments(f), n, f.name) for n, f, _ in fns if n != "cli" and not f.name.startswith("_")),
                 default=(0, "", ""))
    commands = max(((arguments(f), n, f.name) for n, f, _ in fns if n == "cli"), default=(0, "", ""))
    wide = [(n, f) for n, f, _ in fns if not f.name.startswith("_") and arguments(f) > 12]
    lines = sum(len(m.text.splitlines()) for m in modules.values())
    raises = sum(isinstance(o, ast.Raise) for m in modules.values() for o in ast.walk(m.tree))
    foreign = []
    for n, m in modules.items():
        nodes = list(ast.walk(m.tree))
        attributes = [o for o in nodes if isinstance(o, ast.Attribute)]
        own_names = {o.attr for o in attributes if not isinstance(o.ctx, ast.Load)} | {f.name for f, _ in m.functions}
        own_names |= {o.target.id for o in nodes if isinstance(o, ast.AnnAssign) and isinstance(o.target, ast.Name)}
        foreign += [(n, o.attr) for o in attributes if re.match(r"_[a-z]", o.attr) and o.attr not in own_names]
        foreign += [(n, a.name) for o in nodes if isinstance(o, ast.ImportFrom) and o.level
                    for a in o.names if a.name.startswith("_")]
    def place(name: str) -> int:
        folder, number = name.rpartition(".")[0], everything[name].notebook[:3]
        if folder and folder in HOUSE["order"]: return HOUSE["order"].index(folder)
        return max([i for i, o in enumerate(HOUSE["order"]) if o[:1].isdigit() and o <= number], default=1)

    order = {n: (place(n), m.notebook) for n, m in everything.items()}
    arrows = {(n, i) for n, m in modules.items() for i, _ in m.imports if i in everything and i != n}
    back = sorted((n, i) for n, i in arrows if order[i] > order[n] and n not in ("cli", "all"))
    rings = circles(everything)
    top = sum("." not in n for n in modules)
    shown = {"private, used at most once more": [f"{n}.{f.name} ({length(f)} lines)" for n, f in private],
             "over 40 lines": [f"{n}.{f.name} ({length(f)})" for n, f in long],
             "@patch on a class of the same module": [f"{n}.{f.name}" for n, f in own],
             "more than 12 parameters": [f"{n}.{f.name} ({arguments(f)})" for n, f in wide],
             "public, used nowhere else": [f"{n}.{o}" for n, o in unused],
             "another module's _attribute": [f"{n}: {o}" for n, o in foreign],
             "back up": [f"{n} -> {i}" for n, i in back], "circles": [" ".join(sorted(r)) for r in rings]}
    figures = [("modules at the top / in all", f"{top} / {len(modules)}"), ("exported lines", f"{lines:,}"),
               ("functions", f"{len(fns):,}"), ("of them private and used at most once more",
                                                f"{len(private):,} ({100*len(private)/max(1, len(fns)):.0f} %)"),
               ("functions over 40 lines, longest", f"{len(long)}, {max((length(f) for _, f, _ in fns), default=0)}"),
               ("@patch, of them on a class of the same module", f"{len(patches)}, {len(own)}"),
               ("parameters, most: public function", f"{widest[0]} ({widest[1]}.{widest[2]})"),
               ("parameters, most: command", f"{commands[0]} ({commands[2]})"),
               ("raise in 100 lines", f"{100*raises/max(1, lines):.1f}"),
               ("public names, used nowhere else", f"{len({o for n, o in said if n != 'all'})}, {len(unused)}"),
               ("uses of another module's _attribute", f"{len(foreign)}"),
               ("circles of imports, modules in the largest", f"{len(rings)}, {max(map(len, rings), default=0)}"),
               ("imports, of them back up", f"{len(arrows)}, {len(back)}")]
    return figures, shown


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("modules", nargs="*", help="only these modules")
    p.add_argument("--root", type=Path, default=Path(__file__).parent.parent, help="a checkout")
    p.add_argument("--names", action="store_true", help="list what is counted")
    args = p.parse_args()
    figures, shown = measure(args.root, args.modules)
    width = max(len(k) for k, _ in figures)
    for key, value in figures: print(f"{key:<{width}}  {value}")
    if args.names:
        for key, names in shown.items():
            print(f"\n{key}")
            for name in names: print(f"  {name}")
