"From the notebooks in nbs/ to the pages that Sphinx renders: MyST notebooks with stored outputs, nothing executed."
import copy, html, json, posixpath, re, shutil, sys, tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fastcore.nbio import read_nb

import symbols

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT/"tools"))
from readme import visible

SITE = "https://rank-bert.github.io/rank_bert/"
REPO = "https://github.com/rank-bert/rank_bert"
COLAB = "https://colab.research.google.com/github/rank-bert/rank_bert/blob/main/"
HOUSE = tomllib.loads((ROOT/"tools"/"house.toml").read_text(encoding="utf-8"))["folders"]
PAGES = {"explanations": "Explanations", "benchmarks": "Benchmarks", "experiments": "Experiments"}
FOLDERS = ["rankers", "tasks", "", "read", "matrix", "upkeep", "hand_over", "share", "scale", "study", "base"]
SECTIONS = {"tutorials": "Tutorials", **{o: HOUSE[o]["title"] for o in FOLDERS}, **PAGES}  # as the sidebar has them
MOVED = {"light": "matrix/prune", "table": "hand_over/token_table", "distil": "hand_over/token_table",
         "scoring": "rankers/ranker", "graphs": "hand_over/onnx_graphs", "pairs": "rankers/ranking", "leaks": "data",
         "batches": "share/server", "page": "share/server"}  # besides pages that kept their names
FIRST = {"rank_your_own_documents"}  # of the tutorials
EXPORTS = {"export", "exports", "exporti"}
HIDDEN = {"hide", "default_exp"}


@dataclass(eq=False)
class Page:
    "A notebook and the page it becomes."
    path: Path                # nbs/02_losses.ipynb
    title: str                # losses
    description: str          # what stands behind `>` under the title
    module: str               # rank_bert.losses, or nothing
    cells: list
    metadata: dict

    @cached_property
    def exported(self) -> list[str]:
        "The sources of its exported cells."
        return [c.source for c in self.cells if c.cell_type == "code" and c.directives.keys() & EXPORTS]

    @cached_property
    def aliases(self) -> dict:
        "Annotated types that the notebook names."
        return {k: v for source in self.exported for k, v in symbols.aliases(source).items()}

    @property
    def folder(self) -> str: return self.path.parent.relative_to("nbs").as_posix().removeprefix(".")

    @property
    def name(self) -> str:
        "Where the page is, without `.html`: the notebook's path without its number."
        return posixpath.join(self.folder, self.stem)

    @property
    def stem(self) -> str: return re.sub(r"^\d+[a-z]?_", "", self.path.stem)


def load(path: Path) -> Page:
    "Read a notebook; its first cell must be a title and a line of description."
    nb = read_nb(ROOT/path)
    head = re.match(r"# (.+)\n+> (.+)", nb.cells[0].source)
    if not head: raise SystemExit(f"{path}: the first cell must be `# title` and `> description`")
    exp = next((c.directive("default_exp") for c in nb.cells if c.has_directive("default_exp")), None)
    return Page(path, head[1], head[2].strip(), f"rank_bert.{exp}" if exp else "", nb.cells, nb.metadata)


def pages() -> list[Page]:
    "All notebooks: the home page, then section by section in the order of their names."
    paths = [p.relative_to(ROOT) for p in sorted((ROOT/"nbs").rglob("*.ipynb"))]
    found = [load(p) for p in paths if not any(part[0] in "._" for part in p.parts)]
    if unknown := {p.folder for p in found} - SECTIONS.keys():
        raise SystemExit(f"nbs/{unknown.pop()}/: no section of the site has this name")
    order = list(SECTIONS)
    return sorted(found, key=lambda p: (p.name != "index", order.index(p.folder), p.stem not in FIRST, p.path.name))


# Names in backticks become links

class Names:
    "Public names of the package -> their full names; `here` first, and commands only on their own page."

    def __init__(self, all_pages: list[Page]):
        self.modules = {p.module: p.name for p in all_pages if p.module}
        self.full = {p.module: [name for o in p.exported for name in symbols.defined(o)] for p in all_pages if p.module}

    def find(self, name: str, here: str = "") -> str:
        "`module.name` of a name, or ''."
        name = name.removesuffix("()")
        for module in sorted(self.full, key=lambda m: m != here):
            if name in self.full[module] and (module == here or not module.endswith(".cli")): return f"{module}.{name}"
            if name.startswith(f"{module}.") and name.removeprefix(f"{module}.") in self.full[module]: return name
        return ""

    def link(self, markdown: str, here: str = "") -> str:
        "The same text with references at its backticked names; code, headings, links and formulas are left alone."
        def one(m):
            if not m["name"]: return m[0]
            if m["name"] in self.modules: return f"{{doc}}`{m['name']} </{self.modules[m['name']]}>`"
            full = self.find(m["name"], here)
            return f"{{py:obj}}`{m['name']} <{full}>`" if full else m[0]
        return NAME.sub(one, markdown)


NAME = re.compile(r"""
    ^(?P<fence>`{3,})[^\n]*\n.*?^(?P=fence)$              # fenced code and directives
  | ^\#[^\n]*$                                           # headings
  | !?\[[^\]]*\]\([^)]*\) | \$\$.*?\$\$ | \{[\w:]+\}`[^`]*`  # links, formulas, roles
  | (?<!`)`(?P<name>[\w.]+(?:\(\))?)`(?!`)               # a name in backticks, and nothing else
""", re.M | re.S | re.X)


# Cells

def relink(markdown: str, page: Page, names: dict[Path, str]) -> str:
    "Links to notebooks become links to their pages."
    def one(m):
        target = Path(posixpath.normpath((page.path.parent/m[2]).as_posix()))
        if target not in names: raise SystemExit(f"{page.path} links to {m[2]}, which is no notebook")
        return f"{m[1]}{posixpath.relpath(names[target], page.folder or '.')}.ipynb{m[3] or ''})"
    return re.sub(r"(\]\()([^)\s:#]+\.ipynb)(#[^)]*)?\)", one, markdown)


def header(page: Page) -> list[dict]:
    "Title, description, and the way to the notebook itself."
    path, logo = page.path.as_posix(), posixpath.relpath("_static/colab.svg", page.folder or ".")
    image = f'<img src="{logo}" alt="" width="18" height="18">'
    links = [f'<a class="colab" href="{COLAB}{path}">{image}Open in Colab</a>',
             f'<a href="{REPO}/blob/main/{path}">Notebook on GitHub</a>']
    if page.module: links.append(f"<code>{page.module}</code>")
    lines = [f"# {page.title}", f"{{.lead}}\n{page.description}",
             f'```{{raw}} html\n<p class="page-links">{" ".join(links)}</p>\n```']
    if ran := page.metadata.get("rank_bert"): lines.append(stamp(ran))
    elif page.folder == "tutorials": lines.append(TESTED)
    return [markdown("\n\n".join(lines))]


TESTED = """:::{admonition} As it was run
:class: note stamp
The tests run every cell of this page at each commit. Its figures are of one seed, and they vary with the machine.
:::"""


def origin(sweep: dict) -> str:
    "Seeds, data and commits of the runs of a sweep, where the page has them."
    names = dict(seeds="seeds", data="data", commits="commit")
    return "".join(f", {name} {', '.join(sweep[key])}" for key, name in names.items() if sweep.get(key))


def stamp(ran: dict) -> str:
    "When and on what a page of figures was run."
    said = ", ".join(f"{k} {v}" for k, v in ran.items() if k not in ("date", "code", "machine", "full", "sweeps"))
    kept = "".join(f"{one['cells'] - one['fresh']} of the {one['cells']} runs of {one['sweep']!r} were kept from "
                   f"{' and '.join(one['dates'])}{origin(one)}. " for one in ran.get("sweeps", ()))
    on = ran.get("machine", "an unnamed machine")
    run = f"{ran['date']}, on {on}; {said}. {kept}Figures vary with the machine."
    return f":::{{admonition}} As it was run\n:class: note stamp\n{run}\n:::"


def markdown(source: str) -> dict:
    return dict(cell_type="markdown", metadata={}, source=source)


def levels(source: str) -> str:
    "Headings of the fourth level go up by one: symbols, the third level of a notebook, are no headings here."
    return re.sub(r"^####(?= )", "###", source, flags=re.M)


def picture(svg: str, alt: str, where: str) -> str:
    "An SVG that takes part in the page: named for screen readers, its black in the colour of the text."
    if not alt: raise SystemExit(f"{where} shows a picture without `#| fig-alt:`")
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg"):], flags=re.S)
    body = re.sub(r'(<g id="patch_[12]">\s*<path [^>]*?)style="fill: #ffffff[^"]*"', r'\1style="fill: none"', body)
    body = body.replace("#000000", "currentColor").replace("#ffffff", "var(--pst-color-background)")
    body = re.sub(r"<svg ", f'<svg role="img" aria-label="{html.escape(alt)}" ', body, count=1)
    return f'<figure class="plot">{body}</figure>'


def outputs(cell, where: str) -> list[dict]:
    "Stored outputs, pictures made part of the page and tables freed of their fixed styles."
    found, alt = copy.deepcopy(list(cell.outputs)), (cell.directive("fig-alt") or "").strip("\"' ")
    for out in found:
        data = out.get("data", {})
        if "image/svg+xml" in data:
            out["data"] = {"text/html": picture("".join(data["image/svg+xml"]), alt, where)}
        elif "image/png" in data:
            raise SystemExit(f"{where} stores a PNG: `%config InlineBackend.figure_formats = ['svg']`")
        elif "text/html" in data: out["data"] = {"text/html": frame("".join(data["text/html"]))}
    return found


def frame(table: str) -> str:
    "A pandas table without its own style, in a box that scrolls and can be reached by keyboard."
    table = re.sub(r"<style.*?</style>", "", table, flags=re.S)
    table = re.sub(r'<table border="1" ', "<table ", table).replace("<th></th>", "<td></td>")
    return f'<div class="frame" tabindex="0" role="group" aria-label="table">{table}</div>'


def code(cell, page: Page, names: Names) -> list[dict]:
    "What a page shows of a code cell: documentation and folded source of an export, else source and outputs."
    said, source, found = cell.directives, visible(cell.source), []
    if said.keys() & HIDDEN or "false" in (said.get("eval"), said.get("include")) or not source: return []
    shown = dict(cell_type="code", execution_count=None, metadata={}, source=source, outputs=[])
    if said.keys() & EXPORTS:
        found = [symbols.document(cell.source, page.module, lambda text: names.link(text, page.module), page.aliases)]
        if not found[0]: return []
    else: shown["outputs"] = outputs(cell, f"{page.path} cell {cell.id}")
    if found: shown["metadata"]["tags"] = ["hide-input"]
    elif "code-fold" in said:  # with its outputs, which say little without the code
        prompts = dict(code_prompt_show="Proof", code_prompt_hide="Hide the proof")
        shown["metadata"] = dict(tags=["hide-cell"], mystnb=prompts)
    return [*map(markdown, found), shown]


def convert(page: Page, names: Names, where: dict[Path, str]) -> dict:
    "The MyST notebook of a page."
    rest = re.sub(r"\A# .+\n+> .+", "", page.cells[0].source).strip()
    cells = header(page)
    for cell in page.cells:
        source = rest if cell is page.cells[0] else cell.source
        if cell.cell_type == "code": cells += code(cell, page, names)
        elif source and "colab-badge.svg" not in source:
            cells.append(markdown(names.link(relink(levels(source), page, where), page.module)))
    for i, c in enumerate(cells): c["id"] = f"cell-{i}"
    spec = dict(name="python3", display_name="python3", language="python")
    return dict(cells=cells, metadata=dict(kernelspec=spec), nbformat=4, nbformat_minor=5)


def captioned(all_pages: list[Page]) -> list[tuple[str, list[Page]]]:
    "The sections of the sidebar: tutorials, the folders of the package, then the other pages."
    found = [p for p in all_pages if p.name != "index"]
    return [(caption, [p for p in found if p.folder == folder]) for folder, caption in SECTIONS.items()]


def contents(all_pages: list[Page]) -> str:
    "The tables of contents of the home page, which make the sidebar."
    trees = [f"```{{toctree}}\n:caption: {caption}\n:hidden:\n\n" + "\n".join(p.name for p in found) + "\n```"
             for caption, found in captioned(all_pages)]
    return "\n\n".join(trees + ["```{toctree}\n:caption: Project\n:hidden:\n\nchangelog\ncontributing\n```"])


def write(folder: Path) -> list[Page]:
    "Write every page's source into an empty folder; returns the pages."
    found = pages()
    names, where = Names(found), {p.path: p.name for p in found}
    for page in found:
        nb = convert(page, names, where)
        if page.name == "index": nb["cells"].append(markdown(contents(found)) | dict(id="contents"))
        target = folder/f"{page.name}.ipynb"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(nb, ensure_ascii=False), encoding="utf-8")
    for name in ("CHANGELOG", "CONTRIBUTING"):
        shutil.copy(ROOT/f"{name}.md", folder/f"{name.lower()}.md")
    return found
