"""How the notebooks are paced: `python tools/figures.py` prints what redesigns are measured by, beside the aim.

Cells of the numbered notebooks: exported code, visible demonstrations, prose. Lines are counted as they stand, words as they are read."""
import ast, re, sys
from pathlib import Path
from statistics import mean, median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT/"tools"))
from check import is_export, numbered, read_nb, signatures  # noqa: E402


def quantiles(values: list) -> str:
    "Median, 90th percentile and largest."
    ordered = sorted(values)
    return f"{median(ordered):g} / {ordered[int(.9*(len(ordered) - 1))]:g} / {ordered[-1]:g}"


def names() -> int:
    "Names in `__all__` of the modules."
    found = [re.search(r"__all__ = (\[.*?\])", p.read_text(encoding="utf-8"), re.S) for p in Path("rank_bert").glob("*.py")]
    return sum(len(ast.literal_eval(m[1])) for m in found if m)


def underscores() -> int:
    "Underscore names that a module imports from another."
    nodes = [n for p in Path("rank_bert").glob("*.py") for n in ast.walk(ast.parse(p.read_text(encoding="utf-8"))) if isinstance(n, ast.ImportFrom)]
    return sum(a.name[0] == "_" and a.name[:2] != "__" for n in nodes if n.level or str(n.module).startswith("rank_bert") for a in n.names)


def main() -> None:
    import os
    os.chdir(ROOT)
    cells = [c for p in numbered() for c in read_nb(p).cells]
    code = [c for c in cells if c.cell_type == "code" and c.source.strip() and not c.directives.keys() & {"default_exp", "hide"}]
    exported, own = [[c for c in code if is_export(c) == yes] for yes in (True, False)]
    shown, folded = [[c for c in own if c.has_directive("code-fold") == yes] for yes in (False, True)]
    lines = [[len(c.source.strip().splitlines()) - 1 for c in exported if c.source.count("\n")], [len(c.source.strip().splitlines()) for c in shown]]
    wide = [len(line) for c in exported for line in c.source.splitlines()]
    asserts = [len(re.findall(r"\bassert\b|\btest_\w+\(|\bexpect_fail\(", c.source)) for c in shown]
    words = [len(re.sub(r"\[!\[.*", "", c.source).split()) for c in cells if c.cell_type == "markdown"]
    rows = [("export cell, lines: median / p90 / max", quantiles(lines[0]), "10 / 20 / 30"),
            ("exported lines over 120 characters", f"{100*mean(w > 120 for w in wide):.1f} %", "0"),
            ("visible demonstration, lines: median / p90 / max", quantiles(lines[1]), "5 / 10"),
            ("proof, folded on its page, lines", quantiles([len(c.source.strip().splitlines()) for c in folded] or [0]), ""),
            ("assertions in a demonstration: mean / max", f"{mean(asserts):.1f} / {max(asserts)}", "2 / 6"),
            ("prose cell, words: median / p90 / max", quantiles(words), "30 / - / 120"),
            ("public names", str(names()), "200"), ("public signatures", str(len(list(signatures()))), ""),
            ("underscore names imported across modules", str(underscores()), "0")]
    for name, found, aim in [(f"{len(numbered())} notebooks", "here", "aim"), *rows]: print(f"{name:<50}{found:<16}{aim}")


if __name__ == "__main__": main()
