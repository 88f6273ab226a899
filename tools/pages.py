"""Search pages in a browser: `python tools/pages.py`, after `docs/browser/run prepare`.

Pages of rankers, with the encoder and light ones, and of a classifier are exported here, with what the models give for
some texts; web.mjs of docs/browser opens them in Chromium. `--full RANKER` takes a saved ranker of the whole built-in
corpus. The last line is `N passed, N failed`.
"""
import argparse, json, os, subprocess, sys, tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODES = ["hybrid", "dense", "bm25"]
TEXTS = ["how do I copy a folder", "wait for a thread to end", "split a path into folder and file name", "square root",
         "Naïve cafés: C++ and 5G; don't", "a [SEP] b [CLS] c", "ΟΔΥΣΣΕΥΣ ὈΔΥΣΣΕΎΣ", "日本語 のテキスト",
         "smile 😀 İstanbul ﬁle", "os.path.join(a, b) .NET f_string", "ภาษาไทย", "x" * 150, "the of and",
         "Привет мир", "don´t ʼtis issue#5 Donau\u00addampf\u200bschiff", "एक किताब",
         "user: my list is sorted in place and the function gives None. " * 12 + "how do I get a new sorted list?"]


def expected(ranker, texts: list[str]) -> list[dict]:
    "Token ids, scores of all documents, the first ten and the passages of three, in each mode, for each text."
    import numpy as np
    import torch
    from rank_bert.hand_over.onnx_graphs import Output, TextModel, file_tokenizer
    s = ranker.settings
    model = TextModel(ranker.encoder, {"raw": Output(pooling=s["pooling"], keep="end")}, s["max_tokens"])
    vectors = torch.from_numpy(np.stack(model.compute("raw", texts)))  # in float32, where `search` may take bfloat16
    tokenizer = file_tokenizer(ranker.encoder, s["max_tokens"], "end")
    scores = {mode: ranker.scores(texts, mode, vectors if mode != "bm25" else None) for mode in MODES}
    found = []
    for i, text in enumerate(texts):
        order = []
        for mode in MODES:
            top, _ = ranker._top(10, mode, scores[mode][i], None)
            order.append([ranker.documents.doc_id[r] for r in top])
        rows, _ = ranker._top(3, "hybrid", scores["hybrid"][i], None)
        passages = ranker._nearest(text, rows, ranker._index("hybrid"), vectors[i:i + 1], ranker._parts(rows))
        found.append({"ids": tokenizer.encode(text).ids, "order": order, "passages": passages,
                      "scores": [scores[mode][i].tolist() for mode in MODES]})
    return found


def expected_light(ranker, texts: list[str], place: Path) -> tuple[list[str], list[dict], list[dict]]:
    "The modes of a light page, and as `expected` what `Ranker.search` gives in them, and `light_runtime`."
    from rank_bert.share.light_runtime import light_scores, light_search, load_light
    ranker.save(place)
    light = load_light(place)
    modes, exact, eight = [*light.modes], [], []
    for text, ids in zip(texts, light.table.tokens(texts)):
        order = [list(ranker.search(text, 10, mode).doc_id) for mode in modes]
        exact.append({"ids": ids, "order": order, "passages": list(ranker.search(text, 3, modes[0]).passage),
                      "scores": [ranker.scores([text], mode)[0].tolist() for mode in modes]})
        order = [[o["doc_id"] for o in light_search(light, text, 10, mode)] for mode in modes]
        eight.append({"ids": ids, "order": order, "passages": [o["passage"] for o in light_search(light, text, 3)],
                      "scores": [light_scores(light, text, mode).tolist() for mode in modes]})
    return modes, exact, eight


def write_pages(place: Path, ranker, texts: list[str], forms: list[tuple], **options) -> list[dict]:
    "Pages of a ranker, and a line for each of `forms`: name, options, whether it is opened by http, what is expected."
    rows = []
    for name, own, http, modes, given, exact in forms:
        out = name.replace(" ", "_")
        if name != "folder by file": ranker.export(place/out, "web", title="The standard library", **options, **own)
        else: out = "folder_by_http"
        size = sum(f.stat().st_size for f in (place/out).rglob("*") if f.is_file())
        print(f"{name}: {size/1e6:.1f} MB", flush=True)
        rows.append({"name": name, "file": f"{out}/index.html", "kind": "ranker", "http": http, "texts": texts,
                     "modes": modes, "expected": given, "exact": exact, "pictures": "one file" in name})
    return rows


def same_package(n: int):
    "Pairs of docstrings, with 1 where both are from one package and 0 elsewhere."
    import numpy as np
    from rank_bert.read.texts import builtin_texts, text_data
    rng, rows = np.random.default_rng(0), []
    for split, part in builtin_texts(n).rows.groupby("split"):
        for text, package in zip(part.text, part.target):
            for same in (True, False):
                other = rng.choice(part.text[(part.target == package) == same])
                rows.append({"text": text, "pair": other, "label": 1.*same, "split": split})
    return text_data(rows, kind="score")


def write(place: Path, libraries: Path, full: Path|None) -> None:
    "Pages, and expected.json beside them."
    import torch
    from rank_bert.tasks.classifiers import train_classifier
    from rank_bert.data import builtin_corpus
    from rank_bert.hand_over.onnx_graphs import Output, TextModel
    from rank_bert.rankers.training import load_ranker, train_ranker
    from rank_bert.read.testing import tiny_encoder
    from rank_bert.read.texts import builtin_texts
    texts, corpus = TEXTS, builtin_corpus(None if full else 120)
    if full:
        ranker = load_ranker(full)
        texts = TEXTS + [q for q in corpus.queries.text[::60]][:100]
    else: ranker = train_ranker(corpus, "minilm", epochs=2, progress=False)
    given = expected(ranker, texts)
    forms = [("exact folder", {"int8": False}, True, MODES, given, True),
             ("folder by http", {}, True, MODES, given, False), ("folder by file", {}, False, MODES, given, False),
             ("one file", {"one_file": True}, False, MODES, given, False)]
    rows = write_pages(place, ranker, texts, forms, libraries=libraries)
    if ranker.table is None: ranker.distil_table(corpus, pieces=10_000 if full else 300)
    modes, exact, eight = expected_light(ranker, texts, place/"ranker")
    forms = [("light exact folder", {"int8": False}, True, modes, exact, True),
             ("light one file", {"one_file": True}, False, modes, eight, True)]
    rows += write_pages(place, ranker, texts, forms, light=True)
    classifier = train_classifier(builtin_texts(60), tiny_encoder(), epochs=2, dtype=torch.float32, progress=False)
    classifier.export(place/"classifier", "web", libraries=libraries, int8=False, one_file=True)
    own = [t for t in TEXTS if len(t) < 200]
    s = classifier.settings
    out = Output(classifier.head, s["pooling"], "softmax", keep=s["keep"], labels=classifier.labels, bag=classifier.bag)
    values = TextModel(classifier.encoder, {"p": out}, s["max_tokens"]).compute("p", own)
    rows.append({"name": "classifier", "file": "classifier/index.html", "kind": "classifier", "http": False,
                 "exact": True, "texts": own, "labels": classifier.labels, "expected": [v.tolist() for v in values]})
    similar = train_classifier(same_package(60), tiny_encoder(), dtype=torch.float32, progress=False)
    similar.export(place/"pairs", "web", libraries=libraries, int8=False, one_file=True)
    pairs = [*zip(own, own[1:])]
    scores = similar.outputs(pairs, progress=False).reshape(-1, 1).tolist()
    rows.append({"name": "pairs", "file": "pairs/index.html", "kind": "classifier", "http": False, "exact": True,
                 "texts": pairs, "labels": [], "expected": scores})
    (place/"expected.json").write_text(json.dumps(rows), encoding="utf-8")


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--full", type=Path, metavar="RANKER", help="a saved ranker of the whole built-in corpus")
    p.add_argument("--out", type=Path, help="keep the pages in this folder")
    args = p.parse_args()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.path.insert(0, str(ROOT))
    browser = ROOT/"docs"/"browser"
    with tempfile.TemporaryDirectory() as temporary:
        place = args.out or Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("RANK_BERT_HOME", f"{temporary}/home")
        write(place, browser/"node_modules", args.full)
        sys.exit(subprocess.run(["node", browser/"web.mjs", place]).returncode)


if __name__ == "__main__": main()
