"""Train small heads on frozen BERTs, and rank documents with them."""
__version__ = "0.1.0"

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .barlow import barlow_learner
    from .callbacks import FrozenBackbone, FrozenHead
    from .classifiers import Classifier, classifier_learner, train_classifier
    from .data import RankingData, builtin_corpus, ranking_data, read_ranking
    from .embeddings import SentenceEncoder, embedding_learner, evaluate_sts
    from .experiments import compare_freezing, ranking_plot, ranking_table
    from .features import FeatureStore, encode
    from .fitting import ranking_learner
    from .hub import model_card, push_to_hub
    from .lance_ranker import LanceRanker
    from .lowrank import add_lora, factorise, rank_table
    from .metrics import format_table
    from .models import Encoder, get_encoder
    from .monitor import RankMonitor
    from .multitask import multitask_learner
    from .rank import set_rank
    from .ranking_model import ranking_features
    from .saved import load
    from .search import Ranker, load_ranker, train_ranker
    from .tagging import Tagger, tagger_learner, train_tagger
    from .tags import read_tags
    from .texts import TextData, builtin_texts, read_texts, text_data
    from .untrained import untrained_ranker

_HOMES = {
    "barlow": ("barlow_learner",),
    "callbacks": ("FrozenBackbone", "FrozenHead"),
    "classifiers": ("Classifier", "classifier_learner", "train_classifier"),
    "data": ("RankingData", "builtin_corpus", "ranking_data", "read_ranking"),
    "embeddings": ("SentenceEncoder", "embedding_learner", "evaluate_sts"),
    "experiments": ("compare_freezing", "ranking_plot", "ranking_table"),
    "features": ("FeatureStore", "encode"),
    "fitting": ("ranking_learner",),  # it adds `ranker` to the Learner
    "hub": ("model_card", "push_to_hub"),
    "lance_ranker": ("LanceRanker",),
    "lowrank": ("add_lora", "factorise", "rank_table"),
    "metrics": ("format_table",),
    "models": ("Encoder", "get_encoder"),
    "monitor": ("RankMonitor",),
    "multitask": ("multitask_learner",),
    "rank": ("set_rank",),
    "ranking_model": ("ranking_features",),
    "saved": ("load",),
    "search": ("Ranker", "load_ranker", "train_ranker"),
    "tagging": ("Tagger", "tagger_learner", "train_tagger"),
    "tags": ("read_tags",),
    "texts": ("TextData", "builtin_texts", "read_texts", "text_data"),
    "untrained": ("untrained_ranker",),
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
