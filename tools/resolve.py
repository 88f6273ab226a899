"""Do all extras go together? `python tools/resolve.py [VERSION ...]` asks uv for each Python; nothing is installed.

uv needs no settings; where packages come from elsewhere its own variables say so, not pip's settings. With `--lowest`, the oldest
versions that settings.ini allows to users are tried. The last line is `N passed, N failed`.
"""
import argparse, re, subprocess, sys

from packages import settings

VERSIONS = ["3.11", "3.12", "3.13"]


def requirements(dev: bool) -> list[str]:
    "What the package and its extras ask for, `dev` too or not."
    return [o for key, value in settings().items() if re.fullmatch(r"(\w+_)?requirements", key)
            and (dev or key != "dev_requirements") for o in value.split()]


def names(lines: list[str]) -> list[str]:
    "The packages that lines like `Name[extra]>=1` or `name==1` are about, spelled in one way."
    return [re.sub(r"[-_.]+", "-", m[0]).lower() for line in lines if (m := re.match(r"[A-Za-z0-9][\w.-]*", line))]


def resolves(version: str, lowest: bool) -> bool:
    "Ask uv, and say what it chose for the packages that settings.ini names."
    command = [sys.executable, "-m", "uv", "pip", "compile", "-q", "--no-annotate", "--no-header", "--python-version", version, "-"]
    if lowest: command += ["--resolution", "lowest-direct"]
    asked = requirements(dev=not lowest)  # who works on rank_bert has new tools; its users may have old libraries
    done = subprocess.run(command, input="\n".join(asked), capture_output=True, text=True)
    chosen = [line for line in done.stdout.splitlines() if names([line]) and names([line])[0] in names(asked)]
    missing = sorted(set(names(asked)) - set(names(chosen)))
    if done.returncode: print(f"failed {version}: no versions go together\n{done.stderr.strip()}", flush=True)
    elif missing: print(f"failed {version}: nothing was chosen for {', '.join(missing)}", flush=True)
    else: print(f"passed {version}: {len(done.stdout.splitlines())} packages, of them {' '.join(chosen)}", flush=True)
    return not missing and not done.returncode


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("versions", nargs="*", default=VERSIONS, help=f"Python versions ({' '.join(VERSIONS)})")
    p.add_argument("--lowest", action="store_true", help="the oldest versions that settings.ini allows")
    args = p.parse_args()
    results = [resolves(version, args.lowest) for version in args.versions]
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if all(results) else 1


if __name__ == "__main__": sys.exit(main())
