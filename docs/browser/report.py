"A report, a map and an explanation of a small ranker, for report.mjs: `python docs/browser/report.py FOLDER`."
import sys
from pathlib import Path

from rank_bert.rankers.report import write_report
from rank_bert.rankers.training import train_ranker
from rank_bert.read.testing import synth_ranking, tiny_encoder

folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
data = synth_ranking(60)
data.documents["shelf"] = [f"shelf {i % 4}" for i in range(60)]
ranker = train_ranker(data, tiny_encoder(), progress=False)
ranker.map(data, color="shelf").save(folder/"map.html")
write_report(ranker, folder/"report.html", data=data)
why = ranker.explain(data.queries.text[0])._repr_html_()
style = "<style>:root { color-scheme: light dark } body { background: Canvas; color: CanvasText }</style>"
head = f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Why</title>{style}</head>'
page = f"{head}<body><main><h1>Why</h1>{why}</main></body></html>"
(folder/"explain.html").write_text(page, encoding="utf-8")
