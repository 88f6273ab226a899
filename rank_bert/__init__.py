"""Train small heads on frozen BERTs, and rank documents with them."""
__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tasks.barlow import barlow_learner
    from .callbacks import FrozenBackbone, FrozenHead
    from .tasks.classifiers import Classifier, classifier_learner, train_classifier
    from .data import RankingData, builtin_corpus, ranking_data, read_ranking
    from .tasks.embeddings import SentenceEncoder, embedding_learner, evaluate_sts
    from .experiments import compare_freezing, ranking_plot, ranking_table
    from .features import FeatureStore, encode
    from .rankers.fitting import ranking_learner
    from .share.hub import model_card, push_to_hub
    from .scale.lance_ranker import LanceRanker
    from .matrix.lowrank import add_lora, factorise, rank_table
    from .metrics import format_table
    from .models import Encoder, get_encoder
    from .matrix.monitor import RankMonitor
    from .tasks.multitask import multitask_learner
    from .matrix.rank import set_rank
    from .rankers.ranking_model import ranking_features
    from .saved import load
    from .rankers.training import Ranker, load_ranker, train_ranker
    from .tasks.tagging import Tagger, tagger_learner, train_tagger
    from .read.tags import read_tags
    from .read.texts import TextData, builtin_texts, read_texts, text_data
    from .rankers.untrained import untrained_ranker

_HOMES = {
    "tasks.barlow": ("barlow_learner",),
    "callbacks": ("FrozenBackbone", "FrozenHead"),
    "tasks.classifiers": ("Classifier", "classifier_learner", "train_classifier"),
    "data": ("RankingData", "builtin_corpus", "ranking_data", "read_ranking"),
    "tasks.embeddings": ("SentenceEncoder", "embedding_learner", "evaluate_sts"),
    "experiments": ("compare_freezing", "ranking_plot", "ranking_table"),
    "features": ("FeatureStore", "encode"),
    "rankers.fitting": ("ranking_learner",),  # it adds `ranker` to the Learner
    "share.hub": ("model_card", "push_to_hub"),
    "scale.lance_ranker": ("LanceRanker",),
    "matrix.lowrank": ("add_lora", "factorise", "rank_table"),
    "metrics": ("format_table",),
    "models": ("Encoder", "get_encoder"),
    "matrix.monitor": ("RankMonitor",),
    "tasks.multitask": ("multitask_learner",),
    "matrix.rank": ("set_rank",),
    "rankers.ranking_model": ("ranking_features",),
    "saved": ("load",),
    "rankers.training": ("Ranker", "load_ranker", "train_ranker"),
    "tasks.tagging": ("Tagger", "tagger_learner", "train_tagger"),
    "read.tags": ("read_tags",),
    "read.texts": ("TextData", "builtin_texts", "read_texts", "text_data"),
    "rankers.untrained": ("untrained_ranker",),
}  # module -> names that are loaded from it when they are first used, also by verbs of models below it
_home = {name: module for module, names in _HOMES.items() for name in names}
__all__ = sorted(_home)


def __getattr__(name):
    if name not in _home:
        from difflib import get_close_matches
        near = "".join(f". Did you mean {n!r}?" for n in get_close_matches(name, __all__, 1))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{near}")
    globals()[name] = found = getattr(import_module(f".{_home[name]}", __name__), name)
    return found


def __dir__(): return __all__
