"""Are the workflows of GitHub safe, and free of logic? `python tools/workflows.py`. The last line is `N passed, N failed`.

Actions are pinned to a commit, the version beside it; a `run:` is one command that a checkout can run too: a script of ours or
`pip install`. Nothing is granted that a job does not ask for.
"""
import re, sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
USES = re.compile(r"^\s*(?:- )?uses: (\S+)(.*)$", re.M)
PINNED, VERSION = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}"), re.compile(r" # v\d+(\.\d+)*")
WRITTEN = r"\$\{\{.*(github\.(event|head_ref|ref)|inputs)"  # what others can write must not reach a shell


def files() -> list[Path]:
    return sorted(p for p in (ROOT/".github"/"workflows").iterdir() if p.suffix in (".yaml", ".yml"))


def pins(text: str):
    "What is wrong with the actions that a workflow uses."
    for action, rest in USES.findall(text):
        if not PINNED.fullmatch(action): yield f"{action} is not pinned: write the 40 digits of a commit"
        elif not VERSION.fullmatch(rest.rstrip()): yield f"{action} has no version beside it: add a comment like ` # v1.2.3`"


def command(run: str):
    "What is wrong with a `run:`."
    words = run.split()
    script = next((w for w in words if w not in ("python", "bash")), "")
    if len(run.strip().splitlines()) != 1 or re.search(r"&&|\|\||;|[|<>`]|\$\(", re.sub(r'"[^"]*"', "", run)):
        yield f"`{run.strip()}` is more than one command: write a script in tools/"
    elif run.startswith("pip install "): return
    elif not (ROOT/script).is_file(): yield f"`{run.strip()}` starts with no script of this repository and is no `pip install`"
    if re.search(WRITTEN, run): yield f"`{run.strip()}` puts what others write into a shell: read it from the environment"


def structure(flow: dict):
    "What is wrong with permissions, time limits and commands."
    if flow.get("permissions") != {}: yield "grants permissions to every job: write `permissions: {}` at the top, and what a job needs in the job"
    if "concurrency" not in flow: yield "has no `concurrency`"
    for name, job in flow["jobs"].items():
        if "permissions" not in job: yield f"job {name} does not say its `permissions`"
        if "timeout-minutes" not in job: yield f"job {name} has no `timeout-minutes`"
        for step in job.get("steps", []):
            if "run" in step: yield from (f"job {name}: {o}" for o in command(step["run"]))
            kept = step.get("with", {}).get("persist-credentials", True)
            if "actions/checkout@" in step.get("uses", "") and kept: yield f"job {name} leaves the token in the checkout: `persist-credentials: false`"


def problems(path: Path):
    "Everything that is wrong with a workflow."
    text = path.read_text(encoding="utf-8")
    try: flow = yaml.safe_load(text)
    except yaml.YAMLError as e:
        yield f"is no YAML: {e}"
        return
    yield from pins(text)
    yield from structure(flow)


def main() -> int:
    results = []
    for path in files():
        found = list(problems(path))
        for problem in found: print(f"FAIL {path.relative_to(ROOT)}: {problem}")
        if not found: print(f"ok {path.relative_to(ROOT)}")
        results.append(not found)
    print(f"{sum(results)} passed, {len(results) - sum(results)} failed")
    return 0 if results and all(results) else 1


if __name__ == "__main__": sys.exit(main())
