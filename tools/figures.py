"""How the notebooks are paced: `python tools/figures.py` prints what redesigns are measured by, beside the aim.

Cells of the numbered notebooks: exported code, visible demonstrations, prose. Lines and words are counted as found."""
import os
from statistics import mean, median

from check import (ASSERTION, ROOT, cells, demonstrations, is_export, modules, numbered, private, public,
                   signatures, words)


def quantiles(values: list) -> str:
    "Median, 90th percentile and largest."
    ordered = sorted(values) or [0]
    return f"{median(ordered):g} / {ordered[int(.9*(len(ordered) - 1))]:g} / {ordered[-1]:g}"


def lines(cells: list) -> list[int]: return [len(c.source.strip().splitlines()) for c in cells]


def main() -> None:
    os.chdir(ROOT)
    code = [c for _, c in cells("code", numbered)]
    exported = [c for c in code if is_export(c) and "\n" in c.source]
    shown, folded = [c for _, c in demonstrations()], [c for c in code if c.has_directive("code-fold")]
    wide = [len(line) > 120 for c in exported for line in c.source.splitlines()]
    asserts = [len(ASSERTION.findall(c.source)) for c in shown]
    prose = [words(c) for _, c in cells("markdown", numbered)]
    rows = [("export cell, lines: median / p90 / max", quantiles([n - 1 for n in lines(exported)]), "10 / 20 / 30"),
            ("exported lines over 120 characters", f"{100*mean(wide):.1f} %", "0"),
            ("visible demonstration, lines: median / p90 / max", quantiles(lines(shown)), "5 / 10"),
            ("proof, folded on its page, lines", quantiles(lines(folded)), ""),
            ("assertions in a demonstration: mean / max", f"{mean(asserts):.1f} / {max(asserts)}", "2 / 6"),
            ("prose cell, words: median / p90 / max", quantiles(prose), "30 / - / 120"),
            ("public names", sum(len(public(p)) for p in modules()), "200"),
            ("public signatures", len(list(signatures())), ""),
            ("underscore names imported across modules", len(list(private())), "0")]
    for row in [(f"{len(numbered())} notebooks", "here", "aim"), *rows]: print("{:<50}{:<16}{}".format(*row))


if __name__ == "__main__": main()
