"llms.txt and a Markdown copy of each page, for readers that are programs (llmstxt.org)."
import posixpath, sys
from pathlib import Path

from pages import Page, ROOT, SECTIONS, SITE, section

sys.path.insert(0, str(ROOT/"tools"))
import readme


def plain(page: Page) -> str:
    "A notebook as Markdown: prose, code and text outputs, exported code too."
    return "\n\n".join(readme.blocks(ROOT/page.path, {"hide", "default_exp"})) + "\n"


def write(pages: list[Page], site: Path) -> None:
    "Write `llms.txt` and `NAME.html.md` beside each page."
    home = pages[0]
    lines = [f"# {home.title}", f"> {home.description}"]
    for folder, caption in SECTIONS.items():
        found = section(pages, folder)
        if found: lines.append(f"## {caption}\n\n" + "\n".join(f"- [{p.title}]({SITE}{posixpath.join(p.folder, p.stem)}.html.md): {p.description}" for p in found))
    (site/"llms.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    for page in pages: (site/page.folder/f"{page.stem}.html.md").write_text(plain(page), encoding="utf-8")
