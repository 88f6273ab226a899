"""Write README.md from nbs/index.ipynb, without Quarto: `python tools/readme.py`.

Markdown cells are taken as they are, their relative links moved from nbs/ to the top folder. Code cells are fenced and
so are their text outputs; a picture is told by its `fig-alt`. Cells of the build (`hide`, `export`) are left out.
"""
import posixpath, re
from html.parser import HTMLParser
from pathlib import Path

from fastcore.nbio import read_nb

ROOT = Path(__file__).resolve().parent.parent
NOTICE = "<!-- Generated from nbs/index.ipynb by tools/readme.py. Edit the notebook, not this file. -->"
LEFT_OUT = {"hide", "export", "exporti", "exports", "exportd", "default_exp"}
LINK = re.compile(r"(!?\[[^\]]*\]\()(?![a-z][a-z0-9+.-]*:|[#/])([^)\s]+)(?=[)\s])", re.I)  # a relative one


def from_top(markdown: str, folder: str) -> str:
    "The same text with relative link targets counted from the top folder; fenced code is left alone."
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.M | re.S)
    parts[::2] = [LINK.sub(lambda m: m[1] + posixpath.normpath(posixpath.join(folder, m[2])), o) for o in parts[::2]]
    return "".join(parts)


def visible(source: str) -> str:
    "Code as a reader should see it: no `#|` lines, no housekeeping magics."
    housekeeping = r"^\s*(#\s*\||%(config|matplotlib|load_ext|autoreload)).*\n?"
    return re.sub(housekeeping, "", source, flags=re.M).strip("\n")


def fenced(text: str | list[str], language: str = "text") -> str:
    text = "".join(text).rstrip("\n")
    return f"```{language}\n{text}\n```" if text.strip() else ""


class Table(HTMLParser):
    "The rows of an HTML table; the first is the head."
    def __init__(self, html: str):
        super().__init__()
        self.rows, self.inside = [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.inside = tag in ("th", "td")
        if tag == "tr": self.rows.append([])
        if self.inside: self.rows[-1] += [""] * int(dict(attrs).get("colspan", 1))

    def handle_endtag(self, tag): self.inside = False

    def handle_data(self, data):
        if self.inside: self.rows[-1][-1] += data

    def markdown(self) -> str:
        "The same table in Markdown; cells that span rows leave out the cells below them, so rows fill up on the left."
        width = max(map(len, self.rows))
        cells = [[" ".join(c.split()).replace("|", r"\|") for c in row] for row in self.rows]
        cells = [[""] * (width - len(row)) + row for row in cells]
        return "\n".join("| " + " | ".join(row) + " |" for row in [cells[0], ["---"] * width, *cells[1:]])


def output(out: dict, alt: str) -> str:
    "One stored output as Markdown: markdown as it is, text fenced, a picture by its description."
    if out["output_type"] == "stream": return fenced(out["text"]) if out["name"] == "stdout" else ""
    data = out["data"]
    if any(kind.startswith("image/") for kind in data): return f"*Figure: {alt}*" if alt else ""
    if "text/markdown" in data: return "".join(data["text/markdown"]).rstrip()
    if "<table" in (html := "".join(data.get("text/html", ""))): return Table(html).markdown()
    return fenced(data.get("text/plain", ""))


def code_cell(cell, left_out: set[str]) -> list[str]:
    "What a reader sees of a code cell: source, outputs, both or nothing, as its directives say."
    said = cell.directives
    off = {name for name in ("echo", "output", "include") if said.get(name) == "false"}
    if said.keys() & left_out or "include" in off: return []
    shown = [] if "echo" in off else [fenced(visible(cell.source), "python")]
    alt = (said.get("fig-alt") or "").strip("\"'")
    return shown if "output" in off else shown + [output(o, alt) for o in cell.outputs]


def blocks(path: Path, left_out: set[str] = LEFT_OUT) -> list[str]:
    "A notebook as blocks of Markdown."
    folder, found = path.parent.relative_to(ROOT).as_posix(), []
    for cell in read_nb(path).cells:
        if cell.cell_type == "markdown": found.append(from_top(cell.source.strip(), folder))
        elif cell.cell_type == "code": found += code_cell(cell, left_out)
    return [b for b in found if b]


def write() -> None:
    title, *rest = blocks(ROOT/"nbs"/"index.ipynb")
    (ROOT/"README.md").write_text("\n\n".join([title, NOTICE, *rest]) + "\n", encoding="utf-8")


if __name__ == "__main__": write()
