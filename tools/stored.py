"""What the notebooks store: whether outputs are still what the cells give, and which run of a benchmark they are of.

Outputs are compared as a reader sees them: tables and pictures by their text, without blanks, stderr, dates and made-up
ids. Words and whole numbers must be the same. Numbers with a point may differ by `NEAR`, since processors round
differently, and training on rounded numbers ends a little elsewhere. A cell marked `#| varies` is not compared.
"""
import ast, hashlib, html, math, os, re, sys, tomllib
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path

NEAR = dict(rel_tol=.03, abs_tol=.02)  # room: AVX2 in float32 against AVX-512 in bfloat16 moved no lesson by 0.01
NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w|\.\d)", re.I)
FOLDERS = tomllib.loads(Path(__file__).with_name("house.toml").read_text(encoding="utf-8"))["folders"]
STAMPED = ("benchmarks", "experiments", "explanations")  # folders of nbs/: figures of one day and machine


# Outputs

def number(text: str) -> float:
    return float(text.replace(",", ""))


def table_text(source: str) -> str:
    "The text of HTML, a line for each row of a table."
    source = re.sub(r"\s+", " ", re.sub(r"<style.*?</style>", "", source, flags=re.S))
    return html.unescape(re.sub(r"<[^>]+>", " ", source.replace("</tr>", "\n")))


def svg_text(source: str) -> str:
    "An SVG without date and ids, its coordinates in thousands of points: `NEAR` is a small part of its width."
    made_up = r"<\?.*?\?>|<!.*?>|<metadata>.*?</metadata>|\b(?:id|xlink:href|clip-path)=\"[^\"]*\""
    source = re.sub(made_up, "", source, flags=re.S)
    return re.sub(r"<[^>]*>", lambda tag: NUMBER.sub(lambda n: f"{number(n[0])/1000:.4f}", tag[0]), source)


def slim(nb) -> None:
    "Take out of stored pictures what no browser draws and no comparison reads: matplotlib's metadata and comments."
    for out in chain.from_iterable(c.outputs for c in nb.cells if c.cell_type == "code"):
        if svg := out.get("data", {}).get("image/svg+xml"):
            text = re.sub(r"\s*<metadata>.*?</metadata>|\s*<!--.*?-->", "", "".join(svg), flags=re.S)
            out["data"]["image/svg+xml"] = text.splitlines(keepends=True)


READERS = {"image/svg+xml": svg_text, "image/png": lambda _: "a picture", "image/jpeg": lambda _: "a picture",
           "text/html": table_text, "text/markdown": str, "text/latex": str, "text/plain": str}  # an output's first


def lines(out: dict) -> list[str]:
    "What an output says, line by line, its blanks evened out."
    data = out.get("data", {})
    if out["output_type"] == "stream": data = {"text/plain": "" if out["name"] == "stderr" else out["text"]}
    kind, text = next(((k, data[k]) for k in READERS if k in data), ("text/plain", str(out)))
    return [" ".join(line.split()) for line in READERS[kind]("".join(text)).splitlines() if line.strip()]


def near(a: str, b: str) -> bool:
    "Whether two numbers are the same, or nearly the same when they have a point."
    return a == b or "." in a + b and math.isclose(number(a), number(b), **NEAR)


def alike(a: str, b: str) -> bool:
    "Whether two lines have the same words and about the same numbers."
    return NUMBER.sub("#", a) == NUMBER.sub("#", b) and all(map(near, NUMBER.findall(a), NUMBER.findall(b)))


def changes(stored, now) -> list[str]:
    "For each cell whose outputs differ between two runs of a notebook: its id and the first line that differs."
    found, after = [], {c.id: c for c in now.cells}
    for cell in stored.cells:
        if cell.cell_type != "code" or cell.has_directive("varies"): continue
        before, new = (list(chain.from_iterable(map(lines, c.outputs))) for c in (cell, after[cell.id]))
        differ = next((o for o in zip_longest(before, new, fillvalue="(nothing)") if not alike(*o)), None)
        if differ: found.append(f"cell {cell.id}\n  stored: {differ[0]}\n  now:    {differ[1]}")
    return found


# Stamps

def stamped(notebook: Path) -> bool:
    "Whether the outputs of a notebook belong to one run on one machine, to be dated and not compared."
    return notebook.parent.name in STAMPED


def unasserted(source: str) -> str:
    """Code without its assertions, without the words for a picture, and without where names of the package live.

    Code that is not only Python stays as it is."""
    source = re.sub(r"^#\| fig-alt:.*\n?", "", source, flags=re.M)
    source = re.sub(rf"\brank_bert\.(?:{'|'.join(filter(None, FOLDERS))})\.", "rank_bert.", source)
    with suppress(SyntaxError):
        found = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Assert)
                 or isinstance(n, ast.ImportFrom) and (n.module or "").partition(".")[0] == "rank_bert"]
        for node in found: source = source.replace(ast.get_source_segment(source, node), "")
    return source


def code_hash(nb) -> str:
    """A hash of the code of a notebook that its outputs depend on.

    Prose, assertions and the modules that names are imported from may change without another run."""
    code = (unasserted(c.source).strip() for c in nb.cells if c.cell_type == "code")
    code = (source for source in code if source)
    return hashlib.sha256("\0".join(code).encode()).hexdigest()[:16]


def stamp(nb) -> dict:
    "When, where, with what and on which code this process ran a notebook, and of which kept runs its tables are."
    from rank_bert.experiments import machine_card
    sweeps = getattr(sys.modules.get("rank_bert.study.sweeps"), "sweeps_used", list)()
    card = machine_card().machine
    machine = f"{card.cpu}, {card.threads} threads, bf16 {card.bf16}, GPU {card.gpu}, {card.precision}"
    full = os.environ.get("RANK_BERT_BENCHMARK") == "full"
    return dict(card[["date", "python", "torch", "transformers", "rank_bert"]], machine=machine, full=full,
                code=code_hash(nb), **{"sweeps": sweeps} if sweeps else {})
