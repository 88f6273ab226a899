"""Write README.md from nbs/index.ipynb, without Quarto: `python tools/readme.py`, or `--check` to see what would change.

Markdown cells are taken as they are, their relative links moved from nbs/ to the top folder. Code cells are fenced and so are
their text outputs; a picture is told by its `fig-alt`. Cells of the build (`hide`, `export`, `default_exp`, `include: false`) are left out.
"""
import difflib, posixpath, re, sys
from html.parser import HTMLParser
from pathlib import Path
from fastcore.nbio import read_nb

ROOT = Path(__file__).resolve().parent.parent
INDEX, README = ROOT/"nbs"/"index.ipynb", ROOT/"README.md"
NOTICE = "<!-- Generated from nbs/index.ipynb by tools/readme.py. Edit the notebook, not this file. -->"
LEFT_OUT = {"hide", "export", "exporti", "exports", "exportd", "default_exp"}
_link = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(?=[)\s])")


def from_top(markdown: str, folder: str = "nbs") -> str:
    "The same text with relative link targets counted from the top folder; fenced code is left alone."
    def move(m):
        target = m[2]
        outside = re.match(r"[a-z][a-z0-9+.-]*:|[#/]", target, re.I)
        return m[1] + (target if outside else posixpath.normpath(posixpath.join(folder, target)))
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.M | re.S)
    return "".join(p if p.startswith("```") else _link.sub(move, p) for p in parts)


def visible(source: str) -> str:
    "Code as a reader should see it: no `#|` lines, no housekeeping magics."
    return re.sub(r"^\s*(#\s*\|.*|%(config|matplotlib|load_ext|autoreload).*)\n?", "", source, flags=re.M).strip("\n")


def code(source: str) -> str:
    "Fenced code."
    body = visible(source)
    return f"```python\n{body}\n```" if body.strip() else ""


def output(out: dict, alt: str) -> str:
    "One stored output as Markdown: markdown as it is, text fenced, a picture by its description."
    if out["output_type"] == "error": raise SystemExit("an output is an error: run the notebook again with `python tools/test.py --save`")
    if out["output_type"] == "stream": return fenced(out["text"]) if out["name"] == "stdout" else ""
    data = out["data"]
    if any(kind.startswith("image/") for kind in data): return f"*Figure: {alt}*" if alt else ""
    if "text/markdown" in data: return "".join(data["text/markdown"]).rstrip()
    if "<table" in (html := "".join(data.get("text/html", ""))): return Table(html).markdown()
    return fenced(data.get("text/plain", ""))


class Table(HTMLParser):
    "The rows of an HTML table; the first is the head."
    def __init__(self, html: str):
        super().__init__()
        self.rows, self.inside = [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        if tag == "tr": self.rows.append([])
        if tag not in ("th", "td"): return
        self.inside = True
        self.rows[-1] += [""] * int(dict(attrs).get("colspan", 1))

    def handle_endtag(self, tag):
        if tag in ("th", "td"): self.inside = False

    def handle_data(self, data):
        if self.inside: self.rows[-1][-1] += data

    def markdown(self) -> str:
        "The same table in Markdown; cells that span rows leave the cells below them out, which fills up on the left."
        width = max(map(len, self.rows))
        lines = [[""] * (width - len(row)) + [" ".join(c.split()).replace("|", r"\|") for c in row] for row in self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in [lines[0], ["---"] * width, *lines[1:]])


def fenced(text: str | list[str]) -> str:
    text = "".join(text).rstrip("\n")
    return f"```text\n{text}\n```" if text else ""


def code_cell(cell, left_out: set[str]) -> list[str]:
    "What a reader sees of a code cell: source, outputs, both or nothing, as its directives say."
    said = cell.directives
    off = {name for name in ("echo", "output", "include") if said.get(name) == "false"}
    if said.keys() & left_out or "include" in off: return []
    shown = [] if "echo" in off else [code(cell.source)]
    alt = (said.get("fig-alt") or "").strip("\"'")
    if "output" not in off: shown += [output(o, alt) for o in cell.outputs]
    return shown


def blocks(path: Path, left_out: set[str] = LEFT_OUT) -> list[str]:
    "A notebook as blocks of Markdown."
    folder, found = path.parent.relative_to(ROOT).as_posix(), []
    for cell in read_nb(path).cells:
        if cell.cell_type == "markdown": found.append(from_top(cell.source.strip(), folder))
        elif cell.cell_type == "code": found += code_cell(cell, left_out)
    return [b for b in found if b]


def readme() -> str:
    "The text README.md should have."
    title, *rest = blocks(INDEX)
    return "\n\n".join([title, NOTICE, *rest]) + "\n"


def difference() -> str:
    "A unified diff from README.md to what it should be; empty when they agree."
    old = README.read_text(encoding="utf-8") if README.exists() else ""
    return "".join(difflib.unified_diff(old.splitlines(True), readme().splitlines(True), "README.md", "nbs/index.ipynb"))


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        diff = difference()
        print(diff or "README.md is up to date", end="" if diff else "\n")
        sys.exit(bool(diff))
    if sys.argv[1:]: sys.exit("usage: python tools/readme.py [--check]")
    README.write_text(readme(), encoding="utf-8")
