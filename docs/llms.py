"llms.txt and a Markdown copy of each page, for readers that are programs (llmstxt.org)."
from pathlib import Path

from pages import Page, ROOT, SITE, captioned

import readme


def copy(page: Page) -> str:
    "Where the Markdown copy of a page is."
    return f"{page.name}.html.md"


def plain(page: Page, pages: list[Page]) -> str:
    "A notebook as Markdown: prose, code and text outputs, exported code too; links lead to other copies."
    text = "\n\n".join(readme.blocks(ROOT/page.path, {"hide", "default_exp"})) + "\n"
    for other in pages: text = text.replace(f"]({other.path.as_posix()})", f"]({SITE}{copy(other)})")
    return text


def write(pages: list[Page], site: Path) -> None:
    "Write `llms.txt` and `NAME.html.md` beside each page."
    home = pages[0]
    lines = [f"# {home.title}", f"> {home.description}"]
    for caption, found in captioned(pages):
        if found: lines.append(f"## {caption}\n\n" + "\n".join(f"- [{p.title}]({SITE}{copy(p)}): {p.description}" for p in found))
    (site/"llms.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    for page in pages:
        text = plain(page, pages)
        for name in {copy(page), f"{page.folder}/{page.stem}.html.md".lstrip("/")}:  # the second is what nbdev writes into the module
            (site/name).write_text(text, encoding="utf-8")
