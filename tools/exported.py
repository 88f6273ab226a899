"""Exported folders where rank_bert is not installed: `python tools/exported.py`.

Folders are written here, with what the models give for some texts. The code of each folder's README then runs in an
environment that has only the packages that the README names. The app of a Space is started there, and asked over HTTP.
uv makes the environments. The last line is `N passed, N failed`.
"""
import argparse, json, os, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = {  # target -> packages, and modules that must not be there
    "sentence-transformers": (["sentence-transformers"], ["rank_bert", "fastai"]),
    "onnx": (["numpy", "tokenizers", "onnxruntime"], ["rank_bert", "torch", "transformers"]),
    "openvino": (["numpy", "tokenizers", "openvino"], ["rank_bert", "torch", "transformers"]),
    "lancedb": (["lancedb", "pandas"], ["rank_bert", "torch", "transformers"]),
    "space": (["-r", "requirements.txt", "gradio==6.31.0"], ["rank_bert", "torch", "transformers"]),  # of the folder
}
# Runs in the other environment: the code of the README, in its folder, then what it computed beside what is expected
CHECK = """
import importlib.util, json, os, re, sys
folder, expected, absent = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3].split()
there = [name for name in absent if importlib.util.find_spec(name)]
assert not there, f'{there} are installed: this proves nothing'
os.chdir(folder)
sys.modules['openvino_telemetry'] = None
names = {}
exec(re.search(r'```python\\n(.*?)```', open('README.md', encoding='utf-8').read(), re.S)[1], names)
import numpy as np
for name, rows in expected.items():
    name, _, column = name.partition('.')
    found = names[name][column] if column else names[name]
    off = float(np.abs(np.asarray(found) - np.asarray(rows)).max())
    print(name, 'differs by', f'{off:.1e}')
    assert off < 1e-4, f'{name} differs by {off}'
"""
# The same for a Space: its engine beside what is expected, and its page, asked over HTTP
CHECK_SPACE = """
import importlib.util, json, os, sys
folder, expected, absent = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3].split()
there = [name for name in absent if importlib.util.find_spec(name)]
assert not there, f'{there} are installed: this proves nothing'
os.chdir(folder)
sys.path.insert(0, folder)
import numpy as np, app, engine
off = float(np.abs(np.stack([engine.outputs([t])[0] for t in expected['texts']]) - np.array(expected['outputs'])).max())
print('outputs differ by', f'{off:.1e}')
assert off < 1e-4
for text, mode, ids, scores in expected['found']:
    hits = engine.search(text, mode, len(ids))
    assert [h['id'] for h in hits] == ids, (text, mode, ids, hits)
    assert np.allclose([h['score'] for h in hits], scores, atol=1e-4), (text, mode)
print(len(expected['found']), 'searches agree')
from gradio_client import Client
app.demo.launch(prevent_thread_lock=True, server_name='127.0.0.1', quiet=True)
try:
    client, text = Client(app.demo.local_url, verbose=False), expected['texts'][0]
    if expected['found']:
        said = client.predict(text, expected['found'][0][1], 5, api_name='/search')
        assert said == app.shown(text, expected['found'][0][1], 5) and '<li>' in said, said
    else:
        said = client.predict(text, api_name='/label')
        assert said['label'] in engine.SETTINGS['labels'], said
    print('the page answers')
finally: app.demo.close()
"""


def searches(ranker, texts: list[str]) -> list:
    "What a ranker finds in each mode, with vectors in float32: text, mode, ids, scores."
    import numpy as np
    import torch
    from rank_bert.hand_over.onnx_graphs import Output, TextModel
    s = ranker.settings
    model = TextModel(ranker.encoder, {"raw": Output(pooling=s["pooling"], keep="end")}, s["max_tokens"])
    vectors, found = torch.from_numpy(np.stack(model.compute("raw", texts))), []
    for mode in ("hybrid", "dense", "bm25"):
        for text, row in zip(texts, ranker.scores(texts, mode, vectors if mode != "bm25" else None)):
            top, values = ranker._top(5, mode, row, None)
            kept = [(ranker.documents.doc_id[r], float(v)) for r, v in zip(top, values)]
            found.append((text, mode, [i for i, _ in kept], [v for _, v in kept]))
    return found


def encoder_of(ranker):
    "Queries and documents of a ranker as one model."
    from rank_bert.hand_over.onnx_graphs import Output, TextModel
    head, s = ranker.model.head, ranker.settings
    query = Output(head.query, s["pooling"], "unit", keep="end")
    document = Output(head.document, s["pooling"], "unit")
    return TextModel(ranker.encoder, {"query": query, "document": document}, s["max_tokens"])


def vectors_of(model, asked: list[str], parts: list[str]) -> dict:
    "What the code of the READMEs of rankers computes."
    return {name: [v.tolist() for v in model.compute(one, texts)]
            for name, one, texts in (("queries", "query", asked), ("documents", "document", parts))}


def distances(ranker) -> list[float]:
    "Of the first passage to the three nearest, by the vectors of the encoder."
    from torch.nn import functional as F
    unit = F.normalize(ranker.model.passages.float(), dim=1)
    return (1 - unit @ unit[0]).sort().values[:3].tolist()


def written(place: Path) -> dict[str, tuple[Path, str, dict]]:
    "Folders to check: name -> where, target, and what the variables of the README's code must hold."
    sys.path.insert(0, str(ROOT))
    import pandas as pd
    import torch
    from rank_bert.data import builtin_corpus
    from rank_bert.rankers.training import train_ranker
    from rank_bert.read.testing import tiny_encoder
    from rank_bert.read.texts import builtin_texts, text_data
    from rank_bert.tasks.classifiers import train_classifier
    ranker = train_ranker(builtin_corpus(60), "minilm", shared=False, epochs=2, progress=False)
    asked, parts = ["how do I wait for a thread"], ["Wait until the thread terminates.", "Return the square root."]
    found, model = {}, encoder_of(ranker)
    for to in ENVIRONMENTS:
        ranker.export(place/to, to, **({"int8": False} if to == "space" else {}))
        wanted = {"near._distance": distances(ranker)} if to == "lancedb" else vectors_of(model, asked, parts)
        found[f"ranker {to}"] = place/to, to, wanted
    adapted = train_ranker(builtin_corpus(60), tiny_encoder(), "lora", lr=3e-3, epochs=2, progress=False)
    for to in ("sentence-transformers", "onnx"):
        adapted.export(place/f"lora-{to}", to)
        found[f"ranker with LoRA {to}"] = place/f"lora-{to}", to, vectors_of(encoder_of(adapted), asked, parts)
    texts = [*asked, "C++ naïve 日本", "my list is sorted in place. " * 40 + "how do I get a new sorted list?"]
    values = [v.tolist() for v in model.compute("query", texts)]
    wanted = {"texts": texts, "outputs": values, "found": searches(ranker, texts)}
    found["ranker space"] = place/"space", "space", wanted
    classifier = train_classifier(builtin_texts(60), tiny_encoder(), epochs=2, dtype=torch.float32, progress=False)
    classifier.export(place/"classifier", "onnx")
    given = classifier.outputs(["a text", "one more"]).tolist()
    found["classifier onnx"] = place/"classifier", "onnx", {"found": given}
    one, other = (builtin_texts(120).rows.iloc[i::2].reset_index(drop=True) for i in (0, 1))
    rows = pd.DataFrame(dict(text=one.text, pair=other.text, split=one.split))
    first = one.text.str.len() > other.text.str.len()
    pairs = text_data(rows.assign(label=first.map({True: "first", False: "second"})))
    longer = train_classifier(pairs, "minilm", dtype=torch.float32, progress=False)  # reads each text alone
    expected = {"found": longer.outputs([("a text", "its pair"), ("one", "more")]).tolist()}
    for to in ("onnx", "openvino"):
        longer.export(place/f"pairs-{to}", to)
        found[f"classifier of pairs {to}"] = place/f"pairs-{to}", to, expected
    classifier.export(place/"labels", "space", int8=False)
    wanted = {"texts": ["a text", "one more"], "outputs": given, "found": []}
    found["classifier space"] = place/"labels", "space", wanted
    return found


def environment(place: Path, packages: list[str], folder: Path) -> Path:
    "The Python of a new environment with some packages; a list of requirements is in the folder."
    subprocess.run(["uv", "venv", "-q", "--python", sys.executable, place], check=True)
    python = place/"bin"/"python"
    subprocess.run(["uv", "pip", "install", "-q", "--python", python, *packages], check=True, cwd=folder)
    return python


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("targets", nargs="*", choices=[*ENVIRONMENTS, []], help="targets to check (all)")
    chosen = p.parse_args().targets or [*ENVIRONMENTS]
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as place:
        os.environ.setdefault("RANK_BERT_HOME", f"{place}/home")
        folders = written(Path(place))
        for to in chosen:
            packages, absent = ENVIRONMENTS[to]
            first = next(folder for folder, target, _ in folders.values() if target == to)
            python = environment(Path(place)/f"env-{to}", packages, first)
            env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
            for name, (folder, target, expected) in folders.items():
                if target != to: continue
                code = CHECK_SPACE if to == "space" else CHECK
                command = [python, "-I", "-W", "ignore", "-c", code, folder, json.dumps(expected), " ".join(absent)]
                done = subprocess.run(command, capture_output=True, text=True, env=env)
                good, said = done.returncode == 0, done.stdout if done.returncode == 0 else done.stderr
                passed, failed = passed + good, failed + (not good)
                print(f"{'ok' if good else 'FAIL'} {name}: {said.strip()[-900:]}", flush=True)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__": main()
