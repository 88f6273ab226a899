"""Write README.md from nbs/index.ipynb, without Quarto: `python tools/readme.py`, or `--check` to see what would change.

Markdown cells are taken as they are, their relative links moved from nbs/ to the top folder. Code cells are fenced and their
text outputs indented. Cells of the build (`hide`, `export`, `default_exp`, `include: false`) are left out.
"""
import difflib, posixpath, re, sys
from pathlib import Path
from fastcore.nbio import read_nb

ROOT = Path(__file__).resolve().parent.parent
INDEX, README = ROOT/"nbs"/"index.ipynb", ROOT/"README.md"
NOTICE = "<!-- Generated from nbs/index.ipynb by tools/readme.py. Edit the notebook, not this file. -->"
LEFT_OUT = {"hide", "export", "exporti", "exports", "exportd", "default_exp"}
_link = re.compile(r"(!?\[[^\]]*\]\()([^)\s]+)(?=[)\s])")


def from_top(markdown: str) -> str:
    "The same text with relative link targets counted from the top folder; fenced code is left alone."
    def move(m):
        target = m[2]
        outside = re.match(r"[a-z][a-z0-9+.-]*:|[#/]", target, re.I)
        return m[1] + (target if outside else posixpath.normpath(posixpath.join("nbs", target)))
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.M | re.S)
    return "".join(p if p.startswith("```") else _link.sub(move, p) for p in parts)


def code(source: str, language: str = "python") -> str:
    "Fenced code, without its `#|` lines."
    body = "\n".join(line for line in source.splitlines() if not re.match(r"\s*#\s*\|", line)).strip("\n")
    return f"```{language}\n{body}\n```" if body.strip() else ""


def output(out: dict, raw: bool) -> str:
    "One stored output as Markdown: markdown as it is, text indented by four."
    if out["output_type"] == "error":
        raise SystemExit("nbs/index.ipynb stores an error: run it again with `python tools/test.py --save nbs/index.ipynb`")
    if out["output_type"] == "stream":
        if out["name"] == "stderr": return ""
        kind, text = "text/plain", out["text"]
    else:
        kind = next((k for k in ("text/markdown", "text/plain") if k in out["data"]), None)
        if "image/png" in out["data"] or kind is None:
            raise SystemExit("nbs/index.ipynb: README can show text only. Save the picture under nbs/images/ and link it in Markdown")
        text = out["data"][kind]
    text = "".join(text).rstrip("\n")
    if raw or kind == "text/markdown": return from_top(text)
    return f"```text\n{text}\n```"


def code_cell(cell) -> list[str]:
    "What a reader sees of a code cell: source, outputs, both or nothing, as its directives say."
    said = cell.directives
    off = {name for name in ("echo", "output", "include") if said.get(name) == "false"}
    if said.keys() & LEFT_OUT or "include" in off: return []
    shown = [] if "echo" in off else [code(cell.source)]
    if "output" not in off: shown += [output(o, said.get("output") == "asis") for o in cell.outputs]
    return shown


def readme() -> str:
    "The text README.md should have."
    blocks = []
    for cell in read_nb(INDEX).cells:
        if cell.cell_type == "markdown": blocks.append(from_top(cell.source.strip()))
        elif cell.cell_type == "code": blocks += code_cell(cell)
    blocks.insert(1, NOTICE)
    return "\n\n".join(b for b in blocks if b) + "\n"


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
