"Package metadata lives in settings.ini; this file hands it to setuptools."
from configparser import ConfigParser
from pathlib import Path
from setuptools import find_packages, setup

root = Path(__file__).parent
parser = ConfigParser(delimiters=["="], interpolation=None)
parser.read(root/"settings.ini", encoding="utf-8")
cfg = parser["DEFAULT"]
extras = {key.removesuffix("_requirements"): cfg[key].split() for key in cfg if key.endswith("_requirements")}
extras["dev"] = sorted({requirement for extra in extras.values() for requirement in extra})

setup(
    name=cfg["lib_name"], version=cfg["version"], description=cfg["description"],
    long_description=(root/"README.md").read_text(encoding="utf-8"), long_description_content_type="text/markdown",
    author=cfg["author"], author_email=cfg["author_email"], keywords=cfg["keywords"].split(),
    license="Apache-2.0", python_requires=f">={cfg['min_python']}",
    classifiers=["Development Status :: 3 - Alpha", "Intended Audience :: Developers",
                 "Intended Audience :: Science/Research",
                 "Natural Language :: English", "Topic :: Scientific/Engineering :: Artificial Intelligence",
                 *(f"Programming Language :: Python :: {v}" for v in ("3.11", "3.12", "3.13"))],
    packages=find_packages(include=["rank_bert", "rank_bert.*"]),
    package_data={"rank_bert": ["pages/*"]}, include_package_data=False, zip_safe=False,
    install_requires=cfg["requirements"].split(), extras_require=extras,
    entry_points={"console_scripts": [cfg["console_scripts"]], "nbdev": ["rank_bert = rank_bert._modidx:d"]},
)
