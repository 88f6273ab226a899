"Sphinx's settings; `docs/build.py` runs it on the pages that `docs/pages.py` writes."
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from pages import REPO, ROOT, SITE
import symbols
from release import settings

meta = settings()
project, author, copyright = meta["lib_name"], meta["author"], meta["copyright"]
version = release = meta["version"]
language = "en"

extensions = ["myst_nb", "sphinx.ext.linkcode", "sphinx-mathjax-offline", "sphinx_copybutton", "sphinx_sitemap",
              "sphinxext.opengraph", "notfound.extension"]
nb_execution_mode = "off"
nb_code_prompt_show, nb_code_prompt_hide = "Source", "Hide source"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "attrs_block", "attrs_inline", "colon_fence"]
myst_heading_anchors = 4
python_maximum_signature_line_length = 72
add_module_names = False
toc_object_entries_show_parents = "hide"

static = ROOT/"docs"/"static"
logo = str(static/"logo.svg")
html_theme = "sphinx_book_theme"
html_title = project
html_baseurl = SITE
html_static_path = [str(static)]
html_css_files = ["site.css"]
html_favicon = logo
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
pygments_style = "a11y-high-contrast-light"
html_context = dict(default_mode="auto")
html_theme_options = dict(
    repository_url=REPO, repository_branch="main", use_repository_button=True, use_issues_button=True,
    use_download_button=False, show_toc_level=2, home_page_in_toc=True, use_fullscreen_button=False,
    navbar_persistent=[], logo=dict(text=project, image_light=logo, image_dark=logo, alt_text="home"),
    pygments_light_style="a11y-high-contrast-light", pygments_dark_style="a11y-high-contrast-dark",
)
copybutton_exclude = ".linenos, .gp"

sitemap_url_scheme = "{link}"
sitemap_show_lastmod = False
sitemap_excludes = ["search.html", "genindex.html", "404.html"]
notfound_urls_prefix = "/rank_bert/"
ogp_site_url = SITE
ogp_site_name = project
ogp_social_cards = dict(font="DejaVu Sans", line_color="#c2410c", image=str(static/"logo.png"))
ogp_enable_meta_description = True


lines = cache(lambda path: symbols.lines(path.read_text(encoding="utf-8")))


def linkcode_resolve(domain: str, info: dict) -> str | None:
    "Where a symbol's source is."
    if domain != "py" or not info["module"]: return None
    path = info["module"].replace(".", "/") + ".py"
    first, last = lines(ROOT/path)[info["fullname"]]
    return f"{REPO}/blob/main/{path}#L{first}-L{last}"
