"Sphinx's settings; `docs/build.py` runs it on the pages that `docs/pages.py` writes."
import ast, configparser, sys
from functools import lru_cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pages import REPO, ROOT, SITE
import symbols

settings = configparser.ConfigParser(delimiters=["="], interpolation=None)
settings.read(ROOT/"settings.ini", encoding="utf-8")
settings = settings["DEFAULT"]

project, author = settings["lib_name"], settings["author"]
copyright, version = settings["copyright"], settings["version"]
release = version
language = "en"

extensions = ["myst_nb", "sphinx.ext.linkcode", "sphinx-mathjax-offline", "sphinx_copybutton", "sphinx_sitemap", "sphinxext.opengraph", "notfound.extension"]
nb_execution_mode = "off"
nb_code_prompt_show, nb_code_prompt_hide = "Source", "Hide source"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "attrs_block", "attrs_inline", "colon_fence"]
myst_heading_anchors = 4
python_maximum_signature_line_length = 72
add_module_names = False
toc_object_entries_show_parents = "hide"
exclude_patterns = []

html_theme = "sphinx_book_theme"
html_title = project
html_baseurl = SITE
html_static_path = [str(ROOT/"docs"/"static")]
html_css_files = ["site.css"]
html_favicon = str(ROOT/"docs"/"static"/"logo.svg")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
pygments_style = "a11y-high-contrast-light"
html_context = dict(default_mode="auto")
html_theme_options = dict(
    repository_url=REPO, repository_branch="main", use_repository_button=True, use_issues_button=True,
    use_download_button=False, show_toc_level=2, home_page_in_toc=True, use_fullscreen_button=False,
    navbar_persistent=[],
    logo=dict(text=project, image_light=str(ROOT/"docs"/"static"/"logo.svg"), image_dark=str(ROOT/"docs"/"static"/"logo.svg"), alt_text="home"),
    pygments_light_style="a11y-high-contrast-light", pygments_dark_style="a11y-high-contrast-dark",
)
copybutton_exclude = ".linenos, .gp"

sitemap_url_scheme = "{link}"
sitemap_show_lastmod = False
sitemap_excludes = ["search.html", "genindex.html", "404.html"]
notfound_urls_prefix = "/rank_bert/"
ogp_site_url = SITE
ogp_site_name = project
ogp_social_cards = dict(font="DejaVu Sans", line_color="#c2410c", image=str(ROOT/"docs"/"static"/"logo.png"))
ogp_enable_meta_description = True


@lru_cache
def lines(module: str) -> dict[str, tuple[int, int]]:
    "Name -> first and last line in a module of the package."
    found = {}
    for node in ast.parse((ROOT/(module.replace(".", "/") + ".py")).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            found |= {n.id: (node.lineno, node.end_lineno) for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            prefix = symbols.owner(node) if isinstance(node, ast.FunctionDef) else ""
            first = min([node.lineno] + [d.lineno for d in node.decorator_list])
            found[f"{prefix}.{node.name}".lstrip(".")] = first, node.end_lineno
            found |= {f"{node.name}.{n.name}": (n.lineno, n.end_lineno) for n in getattr(node, "body", []) if isinstance(n, ast.FunctionDef)}
    return found


def linkcode_resolve(domain: str, info: dict) -> str | None:
    "Where a symbol's source is."
    if domain != "py" or not info["module"]: return None
    first, last = lines(info["module"])[info["fullname"]]
    return f"{REPO}/blob/main/{info['module'].replace('.', '/')}.py#L{first}-L{last}"
