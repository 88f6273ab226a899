"""What matters on a machine with a CUDA device, checked and measured: `python tools/gpu.py`; without one, `--device cpu --quick`.

Vectors of every family in each precision beside those of the CPU, every Learner, saved models on the device, `torch.compile`, searches at once,
memory, encoding beside sentence-transformers and the rate of matrix products, a fine-tuning beside the Trainer, and the notebooks that touch a
device. A case checks what must hold, and reports figures; a ratio to another library is reported only. A table with the name of the device
stands at the end, and `--out` writes it. What `--minutes` leave no time for is listed as not run, and the exit code is then 1.
The last line is `N passed, N failed`.
"""
import argparse, contextlib, json, os, platform, re, resource, shlex, signal, statistics, subprocess, sys, tempfile, threading, time, traceback, warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read at the import
os.environ["IN_TEST"] = "1"  # no progress bars
warnings.simplefilter("ignore")  # hints about texts that are cut, and what libraries tell their developers

import numpy as np
import torch
from torch.nn import functional as F
from transformers.utils import logging
from rank_bert.models import FAMILIES

TOUCHES = re.compile(r"\b(?:cuda|best_device|default_device|to_device|torch\.device|\w+\.device)\b|\bdevice\s*=")  # a notebook that has this in its code
FLOAT = {torch.float32: 1 - 1e-5, torch.float16: 1 - 1e-3, torch.bfloat16: .99}  # precision -> lowest cosine with float32 on the CPU


# Cases

@dataclass
class Case:
    "What is tried, and what must hold."
    group: str
    name: str
    holds: str
    run: Callable

@dataclass
class Setting:
    "Where and how long the cases run."
    device: torch.device
    quick: bool
    place: Path  # a folder for what they write
    end: float  # time at which all must have ended

    @property
    def cuda(self) -> bool: return self.device.type == "cuda"

    def size(self, quick: int, cpu: int, cuda: int) -> int:
        "How much a case does here."
        return quick if self.quick else cuda if self.cuda else cpu

    def wait(self) -> None:
        "Wait until the device has computed all that it was given."
        if self.cuda: torch.cuda.synchronize()

    def seconds(self, run: Callable) -> float:
        "Seconds of a call, to the end of the device's work."
        self.wait()
        start = time.perf_counter()
        run()
        self.wait()
        return time.perf_counter() - start

@dataclass
class Result:
    "How a case ended."
    group: str
    case: str
    result: str  # passed, failed or not run
    seconds: float = 0.
    figures: dict = field(default_factory=dict)
    why: str = ""

CASES: list[Case] = []

def case(group: str, holds: str, name: str = ""):
    "Enter a function as a case of a group."
    def enter(run):
        CASES.append(Case(group, name or run.__name__.replace("_", "-"), holds, run))
        return run
    return enter

class Wrong(AssertionError):
    "What came instead of what must hold."

class OutOfTime(Exception):
    "The minutes are over."

def must(held: bool, came) -> None:
    "Raise `Wrong`, with what came, unless it held."
    if not held: raise Wrong(str(came)[:1500])

def on(s: Setting, module) -> None:
    "All weights of a module are on the device."
    odd = {p.device.type for p in module.parameters()} - {s.device.type}
    must(not odd, f"weights on {odd}, not on {s.device}")

def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    "The lowest cosine of rows."
    return float(F.cosine_similarity(a.double(), b.double(), dim=1).min())

def short(dtype: torch.dtype) -> str: return str(dtype)[6:]


# Precision

def parity(s: Setting, encoder, texts: list[str]) -> dict:
    "Vectors on the device in each precision beside those of the CPU in float32, with the weights there and here."
    from rank_bert.features import encode
    wanted, figures = encode(texts, encoder, dtype=torch.float32, device="cpu"), {}
    for dtype, lowest in FLOAT.items():
        found = cosine(encode(texts, encoder, dtype=dtype, device=s.device), wanted)
        figures[f"1 - lowest cosine, {short(dtype)}"] = max(0., 1 - found)
        must(found > lowest, f"{short(dtype)}: lowest cosine {found:.6f}, and {lowest} is wanted")
    encoder.to(s.device)
    on(s, encoder)
    ids, mask = (t.to(s.device) for t in encoder.pad(encoder.tokenize(texts[:8])))
    with torch.inference_mode(): pooled = encoder.pool(encoder(ids, mask)[0], mask)  # what `forward` makes is on the device
    must(pooled.device.type == s.device.type, pooled.device)
    must(cosine(pooled.cpu(), wanted[:8]) > FLOAT[torch.float32], "the encoder itself gives other vectors")
    moved = cosine(encode(texts, encoder, dtype=torch.float32, device=s.device), wanted)
    must(moved > FLOAT[torch.float32], f"lowest cosine {moved:.6f} with weights on the device")
    return figures

def family_parity(family: str) -> None:
    @case("parity", "vectors of random weights in float32, float16 and bfloat16 are those of the CPU", family)
    def run(s: Setting) -> dict:
        from rank_bert.read.testing import synth_ranking, tiny_encoder
        width = s.size(32, 256, 768)
        encoder = tiny_encoder(family=family, hidden_size=width, num_hidden_layers=s.size(2, 4, 12), num_attention_heads=width//16, intermediate_size=4*width)
        data = synth_ranking(s.size(6, 40, 200))
        return parity(s, encoder, data.texts + list(data.queries.text))

for one in FAMILIES: family_parity(one)

@case("parity", "vectors of pretrained weights in float32, float16 and bfloat16 are those of the CPU")
def minilm(s: Setting) -> dict:
    from rank_bert.data import builtin_corpus
    from rank_bert.models import get_encoder
    return parity(s, get_encoder("minilm"), builtin_corpus(s.size(8, 100, 2000)).texts)


# Training

def fitted(s: Setting, learn, epochs: int|None = None, **kwargs) -> dict:
    "Train a Learner of fastai on the device; its first and last smoothed loss."
    before = [p.detach().clone() for p in learn.model.parameters() if p.requires_grad]
    with learn.no_bar(), learn.no_logging(): seconds = s.seconds(lambda: learn.fit(epochs or s.size(1, 2, 2), **kwargs))
    on(s, learn.model)
    after, losses = [p for p in learn.model.parameters() if p.requires_grad], torch.stack([*learn.recorder.losses])
    must(bool(losses.isfinite().all()), f"losses {losses.tolist()}")
    must(any(not torch.equal(a, b.to(a.device)) for a, b in zip(after, before)), "no weight has changed")
    return {"steps": len(losses), "steps/s": len(losses)/seconds, "first loss": float(losses[0]), "last loss": float(losses[-1])}

def small(s: Setting):
    "A small encoder with random weights."
    from rank_bert.read.testing import tiny_encoder
    return tiny_encoder(hidden_size=s.size(16, 64, 256), intermediate_size=s.size(32, 256, 1024))

def each(s: Setting, make: Callable, ways: dict[str, dict]) -> dict:
    "Train a Learner in several ways; the figures of the last, and how often."
    for how in ways.values(): figures = fitted(s, make(**how))
    return {"ways": ", ".join(ways)} | figures

FREEZE = {"head": dict(freeze="backbone"), "one layer": dict(freeze=1), "all layers": dict(freeze="none"), "LoRA": dict(freeze="lora")}

@case("learners", "a classifier's head, layers and adapters are trained on the device")
def classifier(s: Setting) -> dict:
    from rank_bert.tasks.classifiers import classifier_learner
    from rank_bert.read.texts import builtin_texts
    data = builtin_texts(60)
    return each(s, lambda **how: classifier_learner(data, small(s), device=s.device, **how), FREEZE)

@case("learners", "a tagger's head, layers and adapters are trained on the device")
def tagger(s: Setting) -> dict:
    from rank_bert.tasks.tagging import tagger_learner
    from rank_bert.read.tags import builtin_tags
    data = builtin_tags(60)
    return each(s, lambda **how: tagger_learner(data, small(s), device=s.device, **how), FREEZE)

@case("learners", "a sentence encoder's head and layers are trained on the device")
def embedding(s: Setting) -> dict:
    from rank_bert.tasks.embeddings import embedding_learner, ranking_pairs
    from rank_bert.read.testing import synth_ranking
    data = ranking_pairs(synth_ranking())
    ways = {k: v for k, v in FREEZE.items() if k != "LoRA"}
    return each(s, lambda **how: embedding_learner(data, "pairs", small(s), device=s.device, **how), ways)

@case("learners", "ranking: a head with all documents or sampled negatives, layers and adapters are trained on the device")
def ranking(s: Setting) -> dict:
    from rank_bert.rankers.ranking_model import ranking_features
    from rank_bert.rankers.ranking import ranking_learner
    from rank_bert.read.testing import synth_ranking
    data = synth_ranking()
    features = ranking_features(data, small(s))
    figures = each(s, lambda **how: ranking_learner(features, device=s.device, **how), {"all": {}, "negatives": dict(negatives=4)})
    layers = {k: v for k, v in FREEZE.items() if k != "head"}
    return each(s, lambda **how: ranking_learner(data, small(s), device=s.device, **how), layers) | dict(ways=", ".join([figures["ways"], *layers]))

@case("learners", "several tasks are trained together on the device, with each weighing of losses")
def multitask(s: Setting) -> dict:
    from rank_bert.tasks.multitask import multitask_learner
    from rank_bert.read.testing import synth_ranking
    from rank_bert.read.texts import builtin_texts
    tasks = dict(texts=builtin_texts(60), ranking=synth_ranking())
    ways = {"equal": {}, "uncertainty": dict(weights="uncertainty"), "gradnorm": dict(weights="gradnorm")}
    return each(s, lambda **how: multitask_learner(tasks, small(s), "none", device=s.device, **how), ways)

@case("learners", "masked tokens, next sentences and distillation are trained on the device")
def pretraining(s: Setting) -> dict:
    from rank_bert.matrix.prune import student
    from rank_bert.tasks.pretraining import distil_embeddings_learner, distil_learner, pretrain_learner
    from rank_bert.read.texts import builtin_texts
    texts = builtin_texts(100).texts
    how = dict(max_tokens=32, device=s.device)
    shape = dict(layers=2, dim=s.size(16, 64, 256), vocab_size=300)
    fitted(s, pretrain_learner(texts, nsp=True, **shape, **how), 1)
    teacher = pretrain_learner(texts, **shape, **how)
    figures = fitted(s, teacher)
    fitted(s, distil_learner(teacher.model, student(teacher.model.encoder, 1), texts, **how), 1)
    fitted(s, distil_embeddings_learner(torch.randn(len(texts), 24), small(s), texts, project=True, **how), 1)
    return figures

@case("learners", "Barlow Twins, VICReg and a ranker with each of their joins are trained on the device")
def barlow(s: Setting) -> dict:
    from rank_bert.tasks.barlow import JOINS, barlow_learner, staged_learner
    from rank_bert.rankers.ranking_model import ranking_features
    from rank_bert.read.testing import synth_ranking
    features = ranking_features(synth_ranking(), small(s))
    for loss in ("vicreg", "barlow"):
        learn = barlow_learner(features, bs=8, draws=2, loss=loss, device=s.device)
        figures = fitted(s, learn, 1)
    for join in JOINS: fitted(s, staged_learner(features, learn.model.head.cpu(), join, device=s.device), 1)
    return figures


# Saved models

ASKED = ["where is the text", "what and how", "a longer text, of which it is not known what it is about"]

def moved(s: Setting, model, outputs: Callable) -> dict:
    "Save a model, load it twice, move one of them to the device: outputs agree; saved from there, it is the same again."
    from rank_bert.saved import load
    model.save(s.place/"saved")
    here, there = (load(s.place/"saved").to(device) for device in ("cpu", s.device))
    on(s, there.encoder)
    wanted, found = outputs(here), outputs(there)
    must(wanted.shape == found.shape, f"{found.shape}, not {wanted.shape}")
    off = float((wanted - found).abs().max())
    must(off < .05, f"outputs differ by {off:.4f}")  # half precision on one of them
    there.save(s.place/"again")
    back = load(s.place/"again").to("cpu")
    again = float((outputs(back) - wanted).abs().max())
    must(again < 1e-5, f"saved from the device, outputs differ by {again:.6f}")
    return {"outputs differ by": off}

def trained(s: Setting, learn):
    with learn.no_bar(), learn.no_logging(): learn.fit(1)
    return learn

@case("models", "a loaded ranker answers on the device as on the CPU: search, ranks, explanation, changes of documents, drift")
def ranker(s: Setting) -> dict:
    from rank_bert.rankers.training import train_ranker
    from rank_bert.read.testing import synth_ranking
    data = synth_ranking()
    asked = list(data.queries.text[:20])
    model = train_ranker(data, small(s), epochs=2, seed=0)
    figures = moved(s, model, lambda r: torch.from_numpy(np.asarray(r.scores(asked, "dense"))))
    model.to(s.device)
    on(s, model.model)
    for mode in ("hybrid", "dense", "bm25"): must(len(model.search(asked[0], k=3, mode=mode)) > 0, f"nothing is found by {mode}")
    model.rank(asked[0], list(data.texts[:3]))
    model.explain(asked[0])
    model.drift(asked)
    model.add([dict(doc_id="new", title="", text="a new document of some words")])
    model.remove(["new"])
    must((model.evaluate(data).value > 0).any(), "nothing is found")
    return figures

@case("models", "a loaded ranker of trained layers answers on the device as on the CPU")
def ranker_of_layers(s: Setting) -> dict:
    from rank_bert.rankers.training import train_ranker
    from rank_bert.read.testing import synth_ranking
    data = synth_ranking(8)
    model = train_ranker(data, small(s), "lora", epochs=1)
    return moved(s, model, lambda r: torch.from_numpy(np.asarray(r.scores(list(data.queries.text[:10]), "dense"))))

@case("models", "a loaded classifier gives on the device what it gives on the CPU")
def loaded_classifier(s: Setting) -> dict:
    from rank_bert.tasks.classifiers import classifier_learner
    from rank_bert.read.texts import builtin_texts
    learn = trained(s, classifier_learner(builtin_texts(60), small(s), "none", device=s.device))
    return moved(s, learn.classifier(), lambda c: c.outputs(ASKED))

@case("models", "a loaded tagger gives on the device what it gives on the CPU")
def loaded_tagger(s: Setting) -> dict:
    from rank_bert.tasks.tagging import tagger_learner
    from rank_bert.read.tags import builtin_tags
    learn = trained(s, tagger_learner(builtin_tags(60), small(s), "none", device=s.device))
    return moved(s, learn.tagger(), lambda t: torch.cat([*map(torch.as_tensor, t.outputs([a.split() for a in ASKED]))]))

@case("models", "a loaded sentence encoder gives on the device what it gives on the CPU")
def loaded_sentence_encoder(s: Setting) -> dict:
    from rank_bert.tasks.embeddings import embedding_learner, ranking_pairs
    from rank_bert.read.testing import synth_ranking
    learn = trained(s, embedding_learner(ranking_pairs(synth_ranking()), "pairs", small(s), "none", device=s.device))
    return moved(s, learn.sentence_encoder(), lambda e: torch.as_tensor(e.encode(ASKED)))


# Compiled, at once, and memory

@case("compile", "torch.compile of an encoder gives its states, for several lengths, in float32 and in autocast")
def compiled(s: Setting) -> dict:
    from rank_bert.read.testing import tiny_encoder
    encoder = tiny_encoder(num_hidden_layers=1) if s.quick else small(s)
    encoder.to(s.device)
    fast, figures = torch.compile(encoder, dynamic=True, fullgraph=True), {}
    for dtype in (torch.float32,) if s.quick else (torch.float32, torch.bfloat16):
        for n in (3, 17, 40):
            ids, mask = (t.to(s.device) for t in encoder.pad([[7]*n, [8]*(n//2 + 1)]))
            with torch.inference_mode(), torch.autocast(s.device.type, dtype, enabled=dtype != torch.float32):
                figures.setdefault("seconds of the first call", s.seconds(lambda: fast(ids, mask)))
                found, wanted = (run(ids, mask)[0][mask.bool()] for run in (fast, encoder))
            must(found.device.type == s.device.type and cosine(found, wanted) > FLOAT[dtype], f"{short(dtype)}, {n} tokens: cosine {cosine(found, wanted):.5f}")
    return figures

@case("search", "searches in two threads, on a device each in a stream of its own, give what they give one after the other")
def two_streams(s: Setting) -> dict:
    from rank_bert.data import builtin_corpus
    from rank_bert.rankers.training import train_ranker
    from rank_bert.read.testing import synth_ranking
    data = synth_ranking() if s.quick else builtin_corpus(200)
    model = train_ranker(data, *([small(s)] if s.quick else []), epochs=1, shared=True).to(s.device)
    asked = list(data.queries.text[:s.size(10, 40, 200)])
    model.search(asked[0])
    def searched(some) -> list: return [[*zip(found.doc_id, found.score)] for found in (model.search(t, k=5) for t in some)]
    one = []
    alone = s.seconds(lambda: one.extend(searched(asked)))
    halves = [asked[::2], asked[1::2]]
    found = {}
    def work(n: int) -> None:
        stream = torch.cuda.stream(torch.cuda.Stream()) if s.cuda else contextlib.nullcontext()
        with stream: found[n] = searched(halves[n])
    threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
    def both() -> None:
        for t in threads: t.start()
        for t in threads: t.join()
    together = s.seconds(both)
    must(len(found) == 2, "a thread ended with an error, shown above")
    for n in range(2):
        for a, b in zip(one[n::2], found[n], strict=True):
            must([i for i, _ in a] == [i for i, _ in b] and np.allclose([x for _, x in a], [x for _, x in b], atol=1e-3), f"{a} alone, {b} together")
    return {"queries/s, one after the other": len(asked)/alone, "queries/s, two at once": len(asked)/together}

def held(s: Setting) -> int:
    "Bytes in use: of the device, or of this process."
    if s.cuda: return torch.cuda.memory_allocated()
    return int(re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())[1])*1024

def peak(s: Setting) -> int:
    return torch.cuda.max_memory_allocated() if s.cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss*1024

@case("memory", "encoding makes no second copy of weights that are on the device, and calls after the first keep no memory")
def memory(s: Setting) -> dict:
    from rank_bert.engines import plan_for
    from rank_bert.features import encode
    from rank_bert.models import get_encoder
    encoder = get_encoder("minilm").to(s.device)
    texts = ["some words of a long text "*60]*s.size(8, 64, 2000)
    if s.cuda: torch.cuda.reset_peak_memory_stats()
    plan = plan_for(encoder, torch.float32, torch.device(s.device.type))
    own = {p.untyped_storage().data_ptr() for p in encoder.model.parameters()}
    used = {t.untyped_storage().data_ptr() for t in (plan.words, plan.layers[0].up[0][0])}
    must(used <= own, "the plan has a copy of the weights, and they are on the device in float32 already")
    def run() -> int:
        encode(texts, encoder, dtype=torch.float32, device=s.device.type)
        return held(s)
    first, *later = (run() for _ in range(4))
    grown = max(later) - first
    must(grown < (2**20 if s.cuda else 200*2**20), f"{grown/2**20:.0f} MiB more after three more calls")
    return {"MiB held": held(s)/2**20, "MiB at most": peak(s)/2**20, "MiB more after three more calls": max(0, grown)/2**20}


# Speed

def product_rate(s: Setting, dtype: torch.dtype, encoder) -> float:
    "Operations a second of the products of an encoder's linear layers."
    d, f, tokens = encoder.dim, encoder.model.config.intermediate_size, s.size(64, 4096, 65536)
    shapes = [(d, 3*d), (d, d), (d, f), (f, d)]
    pairs = [(torch.randn(tokens, i, device=s.device, dtype=dtype), torch.randn(o, i, device=s.device, dtype=dtype)) for i, o in shapes]
    def run() -> None:
        for x, w in pairs: F.linear(x, w)
    with torch.inference_mode():
        run()
        return 2*tokens*sum(i*o for i, o in shapes)/statistics.median(s.seconds(run) for _ in range(s.size(2, 5, 20)))

@case("speed", "vectors of encode are those of sentence-transformers; tokens a second of both, and the rate of matrix products")
def encoding(s: Setting) -> dict:
    from sentence_transformers import SentenceTransformer
    from rank_bert.data import builtin_corpus
    from rank_bert.engines import best_dtype
    from rank_bert.features import encode
    from rank_bert.models import find_weights, get_encoder, quiet
    corpus, encoder = builtin_corpus(s.size(60, 400, None)), get_encoder("minilm").to(s.device)
    pool = corpus.texts + list(corpus.queries.text)
    texts = [*np.random.default_rng(0).choice(pool, s.size(6, 400, 20_000))]
    lengths = np.array([len(i) for i in encoder.tokenize(texts)])
    half = torch.bfloat16 if best_dtype(s.device) == torch.float32 else best_dtype(s.device)
    def peer(dtype: torch.dtype) -> Callable:
        with quiet(): model = SentenceTransformer(str(find_weights("minilm")), device=str(s.device), model_kwargs=dict(dtype=dtype), local_files_only=True)
        return lambda: model.encode(texts, convert_to_tensor=True, normalize_embeddings=False, show_progress_bar=False)
    def ours(dtype: torch.dtype) -> Callable: return lambda: encode(texts, encoder, dtype=dtype, device=s.device)
    ways = {f"{who}, {short(t)}": make(t) for t in (torch.float32, half) for who, make in (("sentence-transformers", peer), ("rank_bert", ours))}
    vectors = {name: run().float().cpu() for name, run in ways.items()}  # the first call of each is not timed
    times = {name: [] for name in ways}
    for _ in range(s.size(1, 2, 3)):
        for name, run in ways.items(): times[name].append(s.seconds(run))
    base = vectors["sentence-transformers, float32"]
    figures = {f"tokens/s, {name}": lengths.sum()/statistics.median(t) for name, t in times.items()}
    layers, d, f = len(encoder.layers), encoder.dim, encoder.model.config.intermediate_size
    work = layers*(2*lengths.sum()*(4*d*d + 2*d*f) + 4*d*(lengths**2).sum())
    for dtype in (torch.float32, half):
        name = f"rank_bert, {short(dtype)}"
        must(cosine(vectors[name], base) > min(FLOAT[dtype], .9999), f"{name}: lowest cosine {cosine(vectors[name], base):.6f}")
        ratios = [b/a for a, b in zip(times[name], times[f"sentence-transformers, {short(dtype)}"])]
        figures[f"times sentence-transformers, {short(dtype)}"] = statistics.median(ratios)
        rate = product_rate(s, dtype, encoder)
        figures |= {f"TFLOP/s of products, {short(dtype)}": rate/1e12, f"share of it, {short(dtype)}": work/statistics.median(times[name])/rate}
    return figures

@case("speed", "all layers are trained, with finite losses; seconds beside those of the Trainer of transformers with the same batches")
def fine_tuning(s: Setting) -> dict:
    import datasets
    from transformers import AutoModelForSequenceClassification, AutoTokenizer, DataCollatorWithPadding, PrinterCallback, Trainer, TrainingArguments
    from rank_bert.tasks.classifiers import classifier_learner
    from rank_bert.engines import best_dtype
    from rank_bert.metrics import classification_metrics
    from rank_bert.models import find_weights, quiet
    from rank_bert.read.texts import builtin_texts, read_texts
    n, bs, lr = s.size(32, 320, 8000), 16, 1e-4
    whole = read_texts("sst2") if "RANK_BERT_DATA" in os.environ and not s.quick else builtin_texts(200)
    data = whole.sample(n) if len(whole.part("train").texts) > n else whole
    train, test = data.part("train"), data.part("test")
    datasets.disable_progress_bars()
    tokenizer = AutoTokenizer.from_pretrained(find_weights("minilm"))
    with quiet(): model = AutoModelForSequenceClassification.from_pretrained(find_weights("minilm"), num_labels=len(data.labels))
    rows = datasets.Dataset.from_dict(dict(tokenizer(train.texts, truncation=True, max_length=64), label=train.targets.tolist()))
    args = TrainingArguments(str(s.place/"trainer"), num_train_epochs=1, per_device_train_batch_size=bs, learning_rate=lr, seed=0, use_cpu=not s.cuda,
                             bf16=best_dtype(s.device) == torch.bfloat16, report_to=[], save_strategy="no", logging_strategy="no", disable_tqdm=True)
    peer = Trainer(model, args, train_dataset=rows, processing_class=tokenizer, data_collator=DataCollatorWithPadding(tokenizer))
    peer.remove_callback(PrinterCallback)
    theirs = s.seconds(peer.train)
    learn = classifier_learner(data, freeze="none", bs=bs, max_tokens=64, seed=0, device=s.device)
    with learn.no_bar(), learn.no_logging(): ours = s.seconds(lambda: learn.fit_one_cycle(1, lr))
    on(s, learn.model)
    must(bool(torch.stack([*learn.recorder.losses]).isfinite().all()), "losses are not finite")
    right = classification_metrics(learn.classifier().outputs(test.texts), test.targets)["accuracy"]
    common = float(np.bincount(test.targets).max()/len(test.targets))
    if not s.quick: must(right > common, f"accuracy {right:.3f}, and the most common label has {common:.3f}")
    return {"training texts": len(train.texts), "seconds": ours, "seconds of the Trainer": theirs, "times the Trainer": theirs/ours, "accuracy": right}


# Notebooks

def touching() -> list[Path]:
    "Notebooks whose code names a device, in the order of their numbers."
    found = []
    for path in (ROOT/"nbs").rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        if any(c["cell_type"] == "code" and TOUCHES.search("".join(c["source"])) for c in cells): found.append(path)
    return sorted(found)

@case("lessons", "each notebook that touches a device passes there; they choose CUDA themselves where it is")
def notebooks(s: Setting) -> dict:
    from rank_bert.engines import best_device
    from fastai.torch_core import default_device
    for chosen in (best_device(), default_device()): must(chosen.type == s.device.type, f"{chosen} would be chosen, not {s.device}")
    paths = touching()[:1] if s.quick else touching()
    names = [p.relative_to(ROOT).as_posix() for p in paths]
    jobs = 1 if s.quick else min(8, os.cpu_count() or 1)
    env = {k: v for k, v in os.environ.items() if k not in ("CI", "IN_TEST")}  # outputs of half precision are others
    command = [sys.executable, str(ROOT/"tools/test.py"), "--no-fresh", "-j", str(jobs), *names]
    run = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    said = []
    try: said += run.stdout
    except OutOfTime:
        run.terminate()
        said += run.stdout
        raise OutOfTime(f"not run: {', '.join(n for n in names if not any(n in line for line in said))}") from None
    finally:
        run.terminate()
        run.wait()
    must(run.returncode == 0, "".join(line for line in said if not line.startswith("passed")))
    return {"notebooks passed": sum(line.startswith("passed") for line in said)}


# Run them

def stop(*_) -> None: raise OutOfTime

def attempt(c: Case, s: Setting) -> Result:
    "Run a case for as long as there is time."
    left, began = s.end - time.monotonic(), time.monotonic()
    if left <= 1: return Result(c.group, c.name, "not run", why="no time was left")
    signal.signal(signal.SIGALRM, stop)
    with tempfile.TemporaryDirectory(prefix="gpu-") as place:
        s.place, found = Path(place), Result(c.group, c.name, "passed")
        signal.setitimer(signal.ITIMER_REAL, left)
        try: found.figures = {k: v if isinstance(v, str) else float(f"{v:.4g}") for k, v in c.run(s).items()}
        except OutOfTime as e: found.result, found.why = "not run", f"{e or 'not finished'}: the minutes were over"
        except Wrong as e: found.result, found.why = "failed", str(e)
        except Exception: found.result, found.why = "failed", traceback.format_exc(limit=-6)
        finally: signal.setitimer(signal.ITIMER_REAL, 0)
    found.seconds = round(time.monotonic() - began, 1)
    return found

def machine(s: Setting) -> dict:
    "What the figures depend on."
    from importlib.metadata import version
    props = torch.cuda.get_device_properties(0) if s.cuda else None
    git = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], cwd=ROOT, capture_output=True, text=True)
    return {"device": props.name if props else f"{s.device} ({platform.machine()})", "device memory": f"{props.total_memory/2**30:.0f} GiB" if props else "that of the machine",
            "CUDA": torch.version.cuda or "none" if props else "not used", "threads": torch.get_num_threads(),
            "torch": torch.__version__, **{n: version(n) for n in ("transformers", "sentence-transformers", "fastai")}, "Python": platform.python_version(),
            "commit": git.stdout.strip() or "unknown", "date": time.strftime("%Y-%m-%d"), "command": shlex.join(["python", "tools/gpu.py", *sys.argv[1:]])}

def table(about: dict, found: list[Result]) -> str:
    "The results as Markdown."
    def one(r: Result) -> str:
        last = (r.why.strip().splitlines() or [""])[-1][:200]
        figures = "; ".join(f"{k} {v if isinstance(v, str) else f'{v:,.4g}' if v < 1e4 else f'{v:,.0f}'}" for k, v in r.figures.items())
        return f"| {r.group} | {r.case} | {r.result} | {r.seconds} | {figures or last.replace('|', '/')} |"
    head = [f"# {about['device']}", "", "| | |", "|---|---|", *(f"| {k} | {v} |" for k, v in about.items())]
    return "\n".join([*head, "", "| group | case | result | seconds | figures |", "|---|---|---|---:|---|", *map(one, found)]) + "\n"

def write(path: Path, text: str) -> None:
    "Write a file whole or not at all."
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)

def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", default="cuda", choices=["cuda", "cpu"], help="where the cases run; CUDA_VISIBLE_DEVICES=1 before the command takes the second card (cuda)")
    p.add_argument("--quick", action="store_true", help="small sizes, and one notebook: under 2 minutes on one core")
    p.add_argument("--minutes", type=float, default=8, help="what has not ended by then is listed as not run (8)")
    p.add_argument("--group", action="append", choices=[*dict.fromkeys(c.group for c in CASES)], help="only this group")
    p.add_argument("--case", action="append", help="only cases whose names hold this")
    p.add_argument("--list", action="store_true", help="only say what there is, and which notebooks touch a device")
    p.add_argument("--out", type=Path, help="write the table to this Markdown file, and the same as JSON beside it")
    args = p.parse_args()
    if args.out: args.out.resolve().parent.mkdir(parents=True, exist_ok=True)
    return args

def chosen(name: str) -> torch.device:
    "The device; without the graphics cards where it is the CPU, since lessons and the Trainer would take one."
    there = torch.cuda.is_available()
    if name == "cuda" and not there: raise SystemExit(f"torch {torch.__version__} sees no CUDA device here: pass --device cpu")
    if name == "cpu" and there: os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | dict(CUDA_VISIBLE_DEVICES=""))  # before Python starts
    return torch.device(name)

def main() -> int:
    args = arguments()
    cases = [c for c in CASES if (not args.group or c.group in args.group) and (not args.case or any(n in c.name for n in args.case))]
    if args.list:
        for c in cases: print(f"{c.group}: {c.name}: {c.holds}")
        print("notebooks that touch a device:", *(p.relative_to(ROOT).as_posix() for p in touching()), sep="\n  ")
        return 0
    logging.set_verbosity_error()
    s, found = Setting(chosen(args.device), args.quick, Path(), time.monotonic() + 60*args.minutes), []
    with tempfile.TemporaryDirectory(prefix="gpu-") as home:
        os.environ["RANK_BERT_HOME"] = home
        for c in cases:
            found.append(r := attempt(c, s))
            print(f"{r.result} {c.group}: {c.name} ({r.seconds} s)", flush=True)
            if r.result != "passed": print(f"     must hold: {c.holds}\n     came: " + r.why.strip().replace("\n", "\n           "), flush=True)
    about = machine(s)
    print("\n" + table(about, found))
    if args.out:
        write(args.out, table(about, found))
        write(args.out.with_suffix(".json"), json.dumps(dict(machine=about, cases=[*map(asdict, found)]), indent=1) + "\n")
    passed, failed, missed = (sum(r.result == kind for r in found) for kind in ("passed", "failed", "not run"))
    if missed: print(f"{missed} not run: {', '.join(r.case for r in found if r.result == 'not run')}")
    print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or missed > 0 or not found)


if __name__ == "__main__": sys.exit(main())
