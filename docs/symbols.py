"""The public symbols that a cell exports, as MyST directives, read from the text of the cell alone.

Nothing is imported or run: signatures, defaults and the comments beside parameters are those of the source.
"""
import ast, io, re, tokenize
from collections.abc import Callable
from dataclasses import dataclass

Def = ast.FunctionDef | ast.AsyncFunctionDef
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+")
Known = dict[str, ast.AST]  # names for annotated types


@dataclass
class Parameter:
    name: str
    type: str = ""
    default: str = ""
    meaning: str = ""


@dataclass
class Cell:
    "What documenting a cell takes besides its code."
    module: str
    said: dict[int, str]          # comments by line
    link: Callable[[str], str]    # makes references of names in Markdown
    known: Known


# Reading

def comments(source: str) -> dict[int, str]:
    "Line number -> the comment that ends the line."
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    ends = (t for t in tokens if t.type == tokenize.COMMENT and t.line.strip()[0] != "#")
    return {t.start[0]: t.string.lstrip("# ").strip() for t in ends}


def text(node: ast.AST | None) -> str:
    return ast.unparse(node) if node else ""


def assigned(node: ast.AST) -> list[str]:
    "The names that a statement assigns to."
    targets = getattr(node, "targets", [node.target] if isinstance(node, ast.AnnAssign) else [])
    return [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def aliases(source: str) -> Known:
    "Names that a cell gives to annotated types; `columns.NAME` is the option of a command for a column."
    body = ast.parse(source).body
    options = [n.value for n in body if assigned(n) == ["COLUMNS"] and isinstance(n.value, ast.Call)]
    columns = {f"columns.{k.arg}": k.value for call in options for k in call.keywords}
    return {name: n.value for n in body for name in assigned(n) if annotated(n.value)[1]} | columns


def flags(name: str, node: ast.AST | None, known: Known) -> str:
    "How a parameter of a command is written in a terminal."
    calls = [o for o in ast.walk(known.get(text(node), node) or ast.Pass()) if isinstance(o, ast.Call)]
    if any(text(o.func) == "typer.Argument" for o in calls): return name.upper()
    values = [a.value for o in calls if text(o.func) == "typer.Option" for a in o.args if isinstance(a, ast.Constant)]
    return ", ".join(o for o in values if isinstance(o, str)) or "--" + name.replace("_", "-")


def annotated(node: ast.AST | None, known: Known = {}) -> tuple[str, str]:
    "Type, without quotes, and help text of an annotation; only `Annotated`, or a known name for one, has the latter."
    node = known.get(text(node), node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str): return node.value, ""
    if isinstance(node, ast.Call) and text(node.func) == "_column": return "str | None", node.args[0].value
    if not (isinstance(node, ast.Subscript) and text(node.value) == "Annotated"): return text(node), ""
    kind, *more = node.slice.elts
    calls = [o for o in more if isinstance(o, ast.Call)]
    helps = [k.value for o in calls for k in o.keywords if k.arg == "help"]
    helps += [a for o in calls if text(o.func) == "_option" for a in o.args[:1]]
    return text(kind), " ".join(o.value for o in helps if isinstance(o, ast.Constant))


def parameters(node: Def, cell: Cell) -> list[Parameter]:
    "The parameters of a function; a comment belongs to the parameter that is alone on its line."
    a = node.args
    plain = a.posonlyargs + a.args
    found = [("", *pair) for pair in zip(plain, [None] * (len(plain) - len(a.defaults)) + a.defaults)]
    found += [("*", a.vararg, None)] if a.vararg else []
    found += [("", *pair) for pair in zip(a.kwonlyargs, a.kw_defaults)]
    found += [("**", a.kwarg, None)] if a.kwarg else []
    ends = [(default or arg).end_lineno for _, arg, default in found]
    rows = []
    for (star, arg, default), end in zip(found, ends):
        if arg.arg in ("self", "cls"): continue
        kind, help = annotated(arg.annotation, cell.known)
        comment = cell.said.get(end, "") if ends.count(end) == 1 else ""
        rows.append(Parameter(star + arg.arg, kind, text(default), comment or help))
    return rows


def with_columns(node: Def, known: Known) -> Def:
    "A command with the options that the decorator `_with_columns` gives it in the place of `columns`."
    given = [d for d in node.decorator_list if isinstance(d, ast.Call) and text(d.func) == "_with_columns"]
    if not given: return node
    every = [name.removeprefix("columns.") for name in known if name.startswith("columns.")]
    names = [a.value for a in given[0].args if isinstance(a, ast.Constant)] or every
    a = node.args
    kept = [(arg, default) for arg, default in zip(a.kwonlyargs, a.kw_defaults) if arg.arg != "columns"]
    kept += [(ast.arg(name + "_column"*(name == "split"), known[f"columns.{name}"], lineno=0, end_lineno=-i),
              ast.Constant(None, lineno=0, end_lineno=-i)) for i, name in enumerate(names, 1)]
    a.kwonlyargs, a.kw_defaults = map(list, zip(*kept))
    return node


def fields(node: ast.ClassDef, cell: Cell) -> list[Parameter]:
    "The parameters of a dataclass."
    def default(value):
        made = isinstance(value, ast.Call) and [k.value for k in value.keywords if k.arg == "default_factory"]
        return f"{text(made[0])}()" if made else text(value)
    return [Parameter(n.target.id, text(n.annotation), default(n.value), cell.said.get(n.end_lineno, ""))
            for n in node.body if isinstance(n, ast.AnnAssign)]


def decorators(node: Def | ast.ClassDef) -> set[str]:
    return {text(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}


def owner(node: ast.AST) -> str:
    "The class that `@patch` adds a function to, or ''."
    return text(node.args.args[0].annotation) if isinstance(node, Def) and "patch" in decorators(node) else ""


def is_property(node: Def) -> bool:
    as_prop = any(k.arg == "as_prop" for d in node.decorator_list if isinstance(d, ast.Call) for k in d.keywords)
    return as_prop or bool(decorators(node) & {"property", "cached_property"})


def public(node: ast.AST) -> bool:
    "Whether a definition is for users: named without an underscore, or a call that says something."
    if not isinstance(node, Def | ast.ClassDef): return False
    return node.name[0] != "_" or node.name == "__call__" and bool(ast.get_docstring(node))


def methods(node: ast.AST) -> list[Def]:
    "The methods of a class that its entry shows."
    body = node.body if isinstance(node, ast.ClassDef) else []
    return [n for n in body if isinstance(n, Def) and public(n) and ast.get_docstring(n)]


def defined(source: str) -> dict[str, ast.AST]:
    "Public names that a source defines, methods as `Class.method`, constants in capitals -> their definitions."
    found = {}
    for node in ast.parse(source).body:
        found |= {name: node for name in assigned(node) if CONSTANT.fullmatch(name)}
        if public(node): found[f"{owner(node)}.{node.name}".lstrip(".")] = node
        if public(node): found |= {f"{node.name}.{n.name}": n for n in methods(node)}
    return found


def lines(source: str) -> dict[str, tuple[int, int]]:
    "Public name -> first and last line, decorators included."
    return {name: (min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", []))]), n.end_lineno)
            for name, n in defined(source).items()}


# Writing

def table(rows: list[Parameter], first: str = "Parameter") -> str:
    "Name, type, default and meaning of each parameter; a column that would be empty is left out."
    columns = [(first, "name", "``"), ("Type", "type", "`"), ("Default", "default", "`"), ("Meaning", "meaning", "")]
    columns = [c for c in columns if any(getattr(r, c[1]) for r in rows)]
    lines = [[c[0] for c in columns], ["---"] * len(columns)]
    for row in rows:
        values = [(re.sub(r"\s+", " ", getattr(row, key)).replace("|", r"\|"), ticks) for _, key, ticks in columns]
        lines.append([f"{ticks}{value}{ticks}" if value else "" for value, ticks in values])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def arguments(node: Def, known: Known) -> str:
    "The argument list as Python writes it, without `self`."
    shown = ast.parse(f"def f({text(node.args)}): pass").body[0].args
    for group in (shown.posonlyargs, shown.args):
        if group and group[0].arg in ("self", "cls"): del group[0]
    for arg in ast.walk(shown):
        if isinstance(arg, ast.arg) and arg.annotation: arg.annotation = ast.Name(annotated(arg.annotation, known)[0])
    return text(shown)


def returns(node: Def, said: dict[int, str]) -> str:
    "A line on what comes back, if the author says anything of it."
    meaning = said.get(node.returns.end_lineno, "") if node.returns else ""
    if not meaning and text(node.returns) in ("", "None"): return ""
    return f"**Returns** `{annotated(node.returns)[0]}`" + (f": {meaning}" if meaning else "")


def directive(kind: str, signature: str, cell: Cell, body: list[str], options: tuple = ()) -> str:
    "A directive of Sphinx's Python domain, fenced so that others fit inside."
    content = cell.link("\n\n".join(b for b in body if b))
    fence = "`" * max([3] + [len(f) + 1 for f in re.findall(r"^`{3,}", content, re.M)])
    return "\n".join([f"{fence}{{py:{kind}}} {signature}", f":module: {cell.module}", *options, "", content, fence])


def function(node: Def, cell: Cell, of: str) -> str:
    "Directive for a function, method or property."
    node = with_columns(node, cell.known)
    name, rows, marks = f"{of}.{node.name}".lstrip("."), parameters(node, cell), decorators(node)
    doc, back, kind = ast.get_docstring(node) or "", returns(node, cell.said), annotated(node.returns)[0]
    if of and is_property(node): return directive("property", name, cell, [doc, back], kind and (f":type: {kind}",))
    signature = f"{name}({arguments(node, cell.known)})" + (f" -> {kind}" if kind else "")
    command = any(d.startswith("app.") for d in marks)
    if command:
        types = {a.arg: a.annotation for a in node.args.args + node.args.kwonlyargs}
        for row in rows: row.name = flags(row.name, types[row.name], cell.known)
    told = any(r.meaning or r.type for r in rows) and table(rows, "In a terminal" if command else "Parameter")
    options = tuple(f":{m}:" for m in ("classmethod", "staticmethod") if m in marks)
    return directive("method" if of else "function", signature, cell, [doc, told, back], options)


def class_(node: ast.ClassDef, cell: Cell) -> str:
    "Directive for a class: its signature is that of `__init__` or of the dataclass, its methods are nested."
    made = next((n for n in node.body if isinstance(n, Def) and n.name == "__init__"), None)
    rows, signature = parameters(made, cell) if made else [], f"({arguments(made, {})})" if made else ""
    if "dataclass" in decorators(node):
        rows = fields(node, cell)
        said = (r.name + (r.type and f": {r.type}") + (r.default and f" = {r.default}") for r in rows)
        signature = f"({', '.join(said)})"
    inner = [function(n, cell, node.name) for n in methods(node)]
    kind = "exception" if any(text(b).endswith(("Error", "Exception")) for b in node.bases) else "class"
    bases = node.bases and "Bases: " + ", ".join(f"`{text(b)}`" for b in node.bases)
    body = [bases, ast.get_docstring(node) or "", rows and table(rows), *inner]
    return directive(kind, node.name + signature, cell, body)


def constants(node: ast.Assign | ast.AnnAssign, cell: Cell) -> list[str]:
    "Directives for names in capitals: their values as the source gives them, unless long."
    value = text(node.value)
    names = [name for name in assigned(node) if CONSTANT.fullmatch(name)]
    options = (f":value: {value}",) if len(value) < 100 and value.isascii() and len(names) == 1 else ()
    return [directive("data", name, cell, [cell.said.get(node.end_lineno, "")], options) for name in names]


def document(source: str, module: str, link: Callable[[str], str], known: Known) -> str:
    "MyST for every public symbol of an exported cell, in the order of the source."
    cell, found = Cell(module, comments(source), link, known), []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign | ast.AnnAssign): found += constants(node, cell)
        elif isinstance(node, ast.ClassDef) and public(node): found.append(class_(node, cell))
        elif public(node): found.append(function(node, cell, owner(node)))
    return "\n\n".join(found)
