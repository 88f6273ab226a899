"llms.txt and a Markdown copy of each page, for readers that are programs (llmstxt.org)."
import re
from pathlib import Path

from pages import Page, ROOT, SITE, captioned

import readme


def write(pages: list[Page], site: Path) -> None:
    "Write `llms.txt` and `NAME.html.md` beside each page: prose, code and outputs; links lead to other copies."
    copies = {p: f"{p.name}.html.md" for p in pages}
    lines = [f"# {pages[0].title}", f"> {pages[0].description}"]
    for caption, found in captioned(pages):
        entries = [f"- [{p.title}]({SITE}{copies[p]}): {p.description}" for p in found]
        if found: lines += [f"## {caption}", "\n".join(entries)]
    project = {o: (ROOT/f"{o.upper()}.md").read_text(encoding="utf-8") for o in ("contributing", "changelog")}
    entries = [f"- [{text.splitlines()[0][2:]}]({SITE}{name}.html.md)" for name, text in project.items()]
    lines += ["## Project", "\n".join(entries)]
    for name, text in project.items(): (site/f"{name}.html.md").write_text(text, encoding="utf-8")
    (site/"llms.txt").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    for page in pages:
        text = "\n\n".join(readme.blocks(ROOT/page.path, {"hide", "default_exp"})) + "\n"
        for other in pages:
            text = re.sub(rf"\]\({re.escape(other.path.as_posix())}(#[^)]*)?\)", rf"]({SITE}{copies[other]}\1)", text)
        for name in {copies[page], f"{page.folder}/{page.stem}.html.md".lstrip("/")}:  # the second is nbdev's
            (site/name).write_text(text, encoding="utf-8")
