"""What must hold of the built site: `python docs/check.py [FOLDER]`.

A check yields what is wrong with the remedy, as in tools/check.py; the last line is `N passed, N failed`.
"""
import ast, posixpath, re, sys, textwrap
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pages import COLAB, REPO, ROOT, SITE, Names, pages

CODE = {"code", "pre", "kbd", "samp", "script", "style"}
RAW = re.compile(r":::|\{(?:py:|doc|ref|raw)|^#\| |\]\([\w./#-]+\)|\$\$|^```|WARNING|<span|</\w+>", re.M)


@dataclass
class Html(HTMLParser):
    "What the checks need of one page."
    text: str
    ids: set = field(default_factory=set)
    links: list = field(default_factory=list)     # what a reader may follow
    loads: list = field(default_factory=list)     # what the browser fetches by itself
    mute: list = field(default_factory=list)      # pictures without a description
    prose: list = field(default_factory=list)     # text outside code
    meta: dict = field(default_factory=dict)
    sources: list = field(default_factory=list)   # (symbol, link to its source)

    def __post_init__(self):
        super().__init__()
        self.open, self.symbol = [], ""
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        if tag not in ("img", "meta", "link", "input", "br", "hr", "path", "use", "rect"): self.open.append(tag)
        if "id" in a: self.ids.add(a["id"])
        if tag == "dt": self.symbol = a.get("id", "")
        if tag == "a":
            if "name" in a: self.ids.add(a["name"])
            if a.get("href"): self.links.append(a["href"])
            if "dt" in self.open and a.get("href", "").startswith(REPO): self.sources.append((self.symbol, a["href"]))
        elif tag == "link":
            if {"stylesheet", "icon", "preload", "modulepreload"} & set(a.get("rel", "").split()): self.loads.append(a["href"])
        elif tag in ("script", "img", "iframe", "source", "video", "audio"):
            if a.get("src"): self.loads.append(a["src"])
        elif tag == "meta" and a.get("content"): self.meta[a.get("property") or a.get("name")] = a["content"]
        if tag == "img" and "alt" not in a: self.mute.append(a.get("src", "img"))
        if tag == "svg" and not a.get("aria-label") and a.get("aria-hidden") != "true": self.mute.append("an inline svg")

    def handle_endtag(self, tag):
        while tag in self.open and self.open.pop() != tag: pass

    def handle_data(self, data):
        if not CODE & set(self.open): self.prose.append(data)


class Site:
    "The built site and the notebooks it was built from."
    def __init__(self, folder: Path):
        self.folder, self.notebooks = folder, pages()
        self.pages = {p.relative_to(folder).as_posix(): Html(p.read_text(encoding="utf-8")) for p in sorted(folder.rglob("*.html")) if "_static" not in p.parts}

    def target(self, page: str, link: str) -> tuple[str, str] | None:
        "(file in the site, anchor) of a link, or None when it leads elsewhere."
        if link.startswith(SITE): link = link.removeprefix(SITE) or "index.html"
        elif re.match(r"[a-z][a-z0-9+.-]*:|//", link, re.I): return None
        elif page == "404.html": link = link.removeprefix(urlsplit(SITE).path)  # it is shown at any address, so its links are absolute
        else:
            path, _, anchor = link.partition("#")
            return posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(path.split("?")[0]))) if path else page, unquote(anchor)
        path, _, anchor = link.partition("#")
        return unquote(path.split("?")[0]) or "index.html", unquote(anchor)


# The checks

def links(site: Site):
    "Every link, anchor and picture is there."
    for page, html in site.pages.items():
        for link in sorted(set(html.links + html.loads + [html.meta.get("og:image", "")])):
            if not link or not (found := site.target(page, link)): continue
            path, anchor = found
            if not (site.folder/path).exists(): yield f"{page} links to {link}, which is not there"
            elif anchor and path in site.pages and anchor not in site.pages[path].ids: yield f"{page} links to {link}, and {path} has no such anchor"


def local(site: Site):
    "No script, style or picture comes from another host."
    for page, html in site.pages.items():
        for link in html.loads:
            if re.match(r"https?:|//", link): yield f"{page} loads {link}: keep a copy in docs/static/"
    for sheet in site.folder.rglob("*.css"):
        for url in re.findall(r"(?:url\(|@import )['\"]?((?:https?:)?//[^)'\"]+)", sheet.read_text(encoding="utf-8", errors="replace")):
            yield f"{sheet.relative_to(site.folder)} loads {url}"


def sources(site: Site):
    "Links into the repository name files that are there, and a symbol's link the lines that define it."
    lead = REPO + "/blob/main/"
    for page, html in site.pages.items():
        for link in html.links:
            path = link.removeprefix(lead).split("#")[0]
            if link.startswith(lead) and not (ROOT/path).exists(): yield f"{page} links to {path}, which is not in the repository"
        for symbol, link in html.sources:
            path, first, last = re.fullmatch(re.escape(lead) + r"(.+)#L(\d+)-L(\d+)", link).groups()
            text = "\n".join((ROOT/path).read_text(encoding="utf-8").splitlines()[int(first) - 1:int(last)])
            try: node = ast.parse(textwrap.dedent(text)).body[0]
            except (SyntaxError, IndexError): node = None
            names = {getattr(node, "name", "")} | {t.id for t in ast.walk(node or ast.Pass()) if isinstance(t, ast.Name)}
            if symbol.rpartition(".")[2] not in names: yield f"{page}: {link} is not the definition of {symbol}"


def notebooks(site: Site):
    "Each notebook has its page, with the way to Colab and to the home page's map."
    home = site.pages["index.html"]
    for nb in site.notebooks:
        page = f"{nb.name}.html"
        if page not in site.pages: yield f"{nb.path} has no page"
        elif COLAB + nb.path.as_posix() not in site.pages[page].links: yield f"{page} has no link that opens {nb.path} in Colab"
        elif nb.name != "index" and not any((site.target("index.html", o) or [""])[0] == page for o in home.links): yield f"the home page does not name {page}"


def documented(site: Site):
    "Every public symbol has an entry."
    names = Names(site.notebooks)
    for nb in site.notebooks:
        for name in names.full.get(nb.module, []):
            if f"{nb.module}.{name}" not in site.pages[f"{nb.name}.html"].ids: yield f"{nb.name}.html has no entry for {nb.module}.{name}"


def rendered(site: Site):
    "No markup is shown raw."
    for page, html in site.pages.items():
        prose = "".join(html.prose)
        if m := RAW.search(prose): yield f"{page} shows markup: {prose[max(0, m.start() - 40):m.end() + 40]!r}"


def described(site: Site):
    "Every picture has a description, every page a title, a summary and a picture for previews."
    for page, html in site.pages.items():
        for src in html.mute: yield f"{page}: {src} has no alternative text"
        if page in ("genindex.html", "search.html", "404.html"): continue
        for key in ("og:title", "og:description", "og:image", "description"):
            if not html.meta.get(key): yield f"{page} has no {key}"


def extras(site: Site):
    "Sitemap, 404 page and llms.txt name what is there."
    found = {e.text for e in ElementTree.parse(site.folder/"sitemap.xml").iter() if e.tag.endswith("}loc")}
    for nb in site.notebooks:
        if f"{SITE}{nb.name}.html" not in found: yield f"sitemap.xml lacks {nb.name}.html"
    for url in sorted(found):
        if not (site.folder/url.removeprefix(SITE)).exists(): yield f"sitemap.xml names {url}, which is not there"
    if "404.html" not in site.pages: yield "there is no 404.html"
    for url in re.findall(r"\]\(([^)]+)\)", (site.folder/"llms.txt").read_text(encoding="utf-8")):
        if not (site.folder/url.removeprefix(SITE)).exists(): yield f"llms.txt names {url}, which is not there"


def main(folder: Path) -> int:
    if not (folder/"index.html").exists():
        print(f"{folder} holds no site: `python docs/build.py`", file=sys.stderr)
        return 2
    site, results = Site(folder), []
    for check in (links, local, sources, notebooks, documented, rendered, described, extras):
        problems = list(check(site))
        for problem in problems: print(f"FAIL {check.__name__}: {problem}")
        if not problems: print(f"ok {check.__name__}")
        results.append(not problems)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__": sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT/"_docs"))
