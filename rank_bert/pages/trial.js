const $ = id => document.getElementById(id), say = text => { $('said').textContent = text; };
const make = (tag, text = '', ...inside) => { const e = document.createElement(tag); e.textContent = text;
  e.append(...inside); return e; };
let models = [];
const call = async (path, body) => {
  const headers = {'Content-Type': 'application/json'};
  if ($('key').value) headers.Authorization = 'Bearer ' + $('key').value;
  const got = await fetch(path, body ? {method: 'POST', headers, body: JSON.stringify(body)} : {headers});
  const found = await got.json();
  if (got.status === 401) $('locked').hidden = false;
  if (!got.ok) throw Error(found.error?.message || found.error || got.statusText);
  return found;
};
const chosen = () => models[$('model').selectedIndex];
const show = () => {
  const one = chosen(); if (!one) return;
  $('how').hidden = one.kind !== 'ranker'; $('second').hidden = !one.pairs;
  $('mode').replaceChildren(...(one.modes || []).map(m => make('option', m)));
  $('ask').textContent = one.kind === 'ranker' ? 'Query' : one.kind === 'encoder' ? 'Texts, one a line' : 'Text';
};
const begin = async () => {
  models = (await call('/info')).models;
  $('model').replaceChildren(...models.map(m => make('option',
    m.name + ' (' + m.kind + (m.documents ? ', ' + m.documents + ' documents' : '') + ')')));
  show(); say('');
};
const rounded = x => Number(x).toFixed(3);
const bars = all => { const rows = Object.entries(all).sort((a, b) => b[1] - a[1]).slice(0, 20).map(([name, p]) => {
    const meter = make('meter'); meter.value = p; meter.setAttribute('aria-label', name);
    return make('tr', '', make('th', name), make('td', rounded(p)), make('td', '', meter)); });
  rows.forEach(r => r.firstChild.scope = 'row'); return make('table', '', ...rows); };
const answers = {
  ranker: async (model, text) => {
    const {results} = await call('/search', {model, query: text, mode: $('mode').value, k: Number($('k').value)});
    return [results.length + ' documents', make('ol', '', ...results.map(r => make('li', '',
      make('strong', r.title || r.doc_id), make('p', r.doc_id + ', score ' + rounded(r.score)),
      make('div', r.passage))))];
  },
  classifier: async (model, text) => {
    const texts = [chosen().pairs ? [text, $('pair').value] : text];
    const [one] = (await call('/classify', {model, texts})).results;
    if (!one.all) return ['Score ' + rounded(one.score), make('div')];
    return [one.label ?? (one.labels.join(', ') || 'no label'), bars(one.all)];
  },
  tagger: async (model, text) => {
    const [names] = (await call('/tag', {model, texts: [text]})).results;
    const parts = []; let at = 0; const chars = Array.from(text);
    for (const n of names) { parts.push(chars.slice(at, n.start).join(''), make('mark', n.text + ' [' + n.type + ']'));
      at = n.end; }
    return [names.length + ' names', make('p', '', ...parts, chars.slice(at).join(''))];
  },
  encoder: async (model, text) => {
    const input = text.split('\n').filter(t => t.trim());
    const {data} = await call('/v1/embeddings', {model, input});
    const dot = (a, b) => a.reduce((s, x, i) => s + x * b[i], 0), norm = a => Math.sqrt(dot(a, a));
    const first = data[0].embedding, rows = data.map((d, i) => make('tr', '', make('td', input[i]),
      make('td', rounded(dot(first, d.embedding) / norm(first) / norm(d.embedding)))));
    const head = make('tr', '', make('th', 'Text'), make('th', 'Cosine with the first'));
    return [first.length + ' numbers a text', make('table', '', head, ...rows)];
  },
};
$('model').addEventListener('change', show);
$('key').addEventListener('change', () => begin().catch(e => say(e.message)));
document.addEventListener('keydown', e => { if (e.key === 'Enter' && e.ctrlKey) $('form').requestSubmit(); });
$('form').addEventListener('submit', async event => {
  event.preventDefault(); say('asking ...'); $('go').disabled = true;
  try {
    if (!models.length) await begin();
    const [title, answer] = await answers[chosen().kind](chosen().name, $('text').value);
    document.querySelectorAll('#answer *').forEach(e => e.remove());
    $('title').textContent = title; $('answer').replaceChildren(answer); $('found').hidden = false;
    say(''); $('title').focus();
  } catch (e) { say('Error: ' + e.message); } finally { $('go').disabled = false; }
});
begin().catch(e => say(e.message));
