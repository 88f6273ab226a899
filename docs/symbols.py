"""The public symbols that a cell exports, as MyST directives, read from the text of the cell alone.

Nothing is imported or run: signatures, defaults and the comments beside parameters stand in the source as the author wrote them.
"""
import ast, io, re, tokenize
from collections.abc import Callable
from dataclasses import dataclass

Def = ast.FunctionDef | ast.AsyncFunctionDef
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]+")


@dataclass
class Parameter:
    name: str
    type: str = ""
    default: str = ""
    meaning: str = ""


# Reading

def comments(source: str) -> dict[int, str]:
    "Line number -> the comment that ends the line."
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("# ").strip() for t in tokens if t.type == tokenize.COMMENT and t.line.strip()[0] != "#"}


def text(node: ast.AST | None) -> str:
    return ast.unparse(node) if node else ""


def annotation(node: ast.AST | None) -> str:
    "A type as text; one that is quoted in the source without its quotes."
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else text(node)


def aliases(source: str) -> dict[str, ast.AST]:
    "Names that a cell gives to annotated types."
    return {n.targets[0].id: n.value for n in ast.parse(source).body
            if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and annotated(n.value)[1]}


def flags(name: str, node: ast.AST | None, known: dict[str, ast.AST]) -> str:
    "How a parameter of a command is written in a terminal."
    node = known.get(text(node), node)
    made = next((o for o in ast.walk(node or ast.Pass()) if isinstance(o, ast.Call) and text(o.func) in ("typer.Option", "typer.Argument")), None)
    given = [o.value for o in made.args if isinstance(o, ast.Constant) and isinstance(o.value, str)] if made else []
    if made and text(made.func) == "typer.Argument": return name.upper()
    return ", ".join(given) or "--" + name.replace("_", "-")


def annotated(node: ast.AST | None, known: dict[str, ast.AST] = {}) -> tuple[str, str]:
    "Type and help text of an annotation; only `Annotated`, or a known name for one, has the latter."
    node = known.get(text(node), node)
    if not (isinstance(node, ast.Subscript) and text(node.value) == "Annotated"): return annotation(node), ""
    kind, *more = node.slice.elts
    said = [k.value.value for o in more if isinstance(o, ast.Call) for k in o.keywords if k.arg == "help" and isinstance(k.value, ast.Constant)]
    return text(kind), " ".join(said)


def parameters(node: Def, said: dict[int, str], known: dict[str, ast.AST] = {}) -> list[Parameter]:
    "The parameters of a function; a comment belongs to the parameter that is alone on its line."
    a = node.args
    plain = a.posonlyargs + a.args
    defaults = [None] * (len(plain) - len(a.defaults)) + a.defaults
    found = [("", *pair) for pair in zip(plain, defaults)]
    if a.vararg: found.append(("*", a.vararg, None))
    found += [("", *pair) for pair in zip(a.kwonlyargs, a.kw_defaults)]
    if a.kwarg: found.append(("**", a.kwarg, None))
    ends = [(default or arg).end_lineno for _, arg, default in found]
    return [Parameter(star + arg.arg, kind, text(default), (said.get(end, "") if ends.count(end) == 1 else "") or help)
            for (star, arg, default), end in zip(found, ends) if arg.arg not in ("self", "cls") for kind, help in [annotated(arg.annotation, known)]]


def fields(node: ast.ClassDef, said: dict[int, str]) -> list[Parameter]:
    "The parameters of a dataclass."
    def default(value):
        factory = isinstance(value, ast.Call) and text(value.func) == "field" and {k.arg: k.value for k in value.keywords}
        return f"{text(factory['default_factory'])}()" if factory and "default_factory" in factory else text(value)
    return [Parameter(n.target.id, text(n.annotation), default(n.value), said.get(n.end_lineno, ""))
            for n in node.body if isinstance(n, ast.AnnAssign)]


def decorators(node: Def | ast.ClassDef) -> set[str]:
    return {text(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list}


def owner(node: Def) -> str:
    "The class that `@patch` adds a function to, or ''."
    return text(node.args.args[0].annotation) if "patch" in decorators(node) else ""


def is_property(node: Def) -> bool:
    as_prop = any(k.arg == "as_prop" for d in node.decorator_list if isinstance(d, ast.Call) for k in d.keywords)
    return as_prop or bool(decorators(node) & {"property", "cached_property"})


def public(node: ast.AST) -> bool:
    "Whether a definition is for users: named without an underscore, and a method only if it says something."
    return isinstance(node, Def | ast.ClassDef) and (node.name[0] != "_" or node.name == "__call__" and bool(ast.get_docstring(node)))


def names(source: str) -> list[str]:
    "Public names that a cell defines, methods as `Class.method`, constants in capitals."
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            found += [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name) and CONSTANT.fullmatch(n.id)]
        elif public(node):
            prefix = f"{owner(node)}." if isinstance(node, Def) and owner(node) else ""
            found.append(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                found += [f"{node.name}.{n.name}" for n in node.body if public(n) and ast.get_docstring(n)]
    return found


# Writing

def entry(value: str, ticks: str = "") -> str:
    "The content of a cell of a table."
    value = re.sub(r"\s+", " ", value).replace("|", r"\|")
    return f"{ticks}{value}{ticks}" if value else ""


def table(rows: list[Parameter], first: str = "Parameter") -> str:
    "Name, type, default and meaning of each parameter; a column that would be empty is left out."
    columns = [(first, "name", "``"), ("Type", "type", "`"), ("Default", "default", "`"), ("Meaning", "meaning", "")]  # two ticks: no link
    columns = [c for c in columns if any(getattr(r, c[1]) for r in rows)]
    lines = [[c[0] for c in columns], ["---"] * len(columns)] + [[entry(getattr(r, key), ticks) for _, key, ticks in columns] for r in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def arguments(node: Def, known: dict[str, ast.AST] = {}) -> str:
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
    if not meaning and (not node.returns or text(node.returns) == "None"): return ""
    return f"**Returns** `{annotation(node.returns)}`" + (f": {meaning}" if meaning else "")


@dataclass
class Cell:
    "What documenting a cell takes besides its code."
    module: str
    said: dict[int, str]          # comments by line
    link: Callable[[str], str]    # makes references of names in Markdown
    known: dict[str, ast.AST]     # names for annotated types


def directive(kind: str, signature: str, cell: Cell, body: list[str], options: tuple = ()) -> str:
    "A directive of Sphinx's Python domain, fenced so that others fit inside."
    content = cell.link("\n\n".join(b for b in body if b))
    fence = "`" * max([3] + [len(f) + 1 for f in re.findall(r"^`{3,}", content, re.M)])
    return "\n".join([f"{fence}{{py:{kind}}} {signature}", f":module: {cell.module}", *options, "", content, fence])


def function(node: Def, cell: Cell, of: str = "") -> str:
    "Directive for a function, method or property."
    name, rows = f"{of}.{node.name}" if of else node.name, parameters(node, cell.said, cell.known)
    doc, back = ast.get_docstring(node) or "", returns(node, cell.said)
    if of and is_property(node): return directive("property", name, cell, [doc, back], (f":type: {annotation(node.returns)}",) if node.returns else ())
    marks = tuple(f":{m}:" for m in ("classmethod", "staticmethod") if m in decorators(node))
    signature = f"{name}({arguments(node, cell.known)})" + (f" -> {annotation(node.returns)}" if node.returns else "")
    command = any(d.startswith("app.") for d in decorators(node))
    if command:
        types = {a.arg: a.annotation for a in node.args.args}
        for row in rows: row.name = flags(row.name, types[row.name], cell.known)
    told = table(rows, "In a terminal" if command else "Parameter") if any(r.meaning or r.type for r in rows) else ""
    return directive("method" if of else "function", signature, cell, [doc, told, back], marks)


def class_(node: ast.ClassDef, cell: Cell) -> str:
    "Directive for a class: its signature is that of `__init__` or of the dataclass, its methods are nested."
    made = next((n for n in node.body if isinstance(n, Def) and n.name == "__init__"), None)
    rows, signature = parameters(made, cell.said) if made else [], f"({arguments(made)})" if made else ""
    if "dataclass" in decorators(node):
        rows = fields(node, cell.said)
        signature = "(" + ", ".join(r.name + (f": {r.type}" if r.type else "") + (f" = {r.default}" if r.default else "") for r in rows) + ")"
    methods = [function(n, cell, node.name) for n in node.body if isinstance(n, Def) and public(n) and ast.get_docstring(n)]
    kind = "exception" if any(text(b).endswith(("Error", "Exception")) for b in node.bases) else "class"
    bases = "Bases: " + ", ".join(f"`{text(b)}`" for b in node.bases) if node.bases else ""
    return directive(kind, node.name + signature, cell, [bases, ast.get_docstring(node) or "", table(rows) if rows else "", *methods])


def constants(node: ast.Assign, cell: Cell) -> list[str]:
    "Directives for names in capitals: their values as the source gives them, unless long."
    value = text(node.value)
    options = (f":value: {value}",) if len(value) < 100 and not isinstance(node.targets[0], ast.Tuple) else ()
    found = [n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)]
    return [directive("data", name, cell, [cell.said.get(node.end_lineno, "")], options) for name in found if CONSTANT.fullmatch(name)]


def document(source: str, module: str, link: Callable[[str], str] = str, known: dict[str, ast.AST] = {}) -> str:
    "MyST for every public symbol of an exported cell, in the order of the source."
    cell, found = Cell(module, comments(source), link, known), []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign): found += constants(node, cell)
        elif isinstance(node, ast.ClassDef) and public(node): found.append(class_(node, cell))
        elif isinstance(node, Def) and public(node): found.append(function(node, cell, owner(node)))
    return "\n\n".join(found)
