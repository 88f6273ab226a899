// The page: what is typed, what is shown.
import { SearchIndex, readTensors } from './index.js'
import { loadModel } from './model.js' // or './table.js': a page has one of them
import { jsonPart, part } from './parts.js'

const at = id => document.getElementById(id)
const status = text => { at('status').textContent = text }

function element (name, text = '', attributes = {}) {
  const made = Object.assign(document.createElement(name), { textContent: text })
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  return made
}

// One search at a time; of those asked meanwhile, the last
function latest (act) {
  let running = false, waiting = null
  return async function again (...given) {
    if (running) { waiting = given; return }
    running = true
    try { await act(...given) } catch (error) { status(`Error: ${error.message}`); console.error(error) }
    running = false
    if (waiting) [given, waiting] = [waiting, null], await again(...given)
  }
}

// Where texts are typed: a box, or two for a pair
const boxes = () => ['query', 'pair'].map(at).filter(Boolean)

const readable = new Intl.NumberFormat('en')

function shown (index, query, hit, n) {
  const { title, id, text } = index.settings.rows[hit.row]
  const item = element('li')
  const button = element('button', title || id, { 'aria-expanded': 'false', 'aria-controls': `whole-${n}`, type: 'button' })
  const passage = element('p', '', { class: 'passage' })
  for (const [part, mark] of index.marked(index.passage(hit.passage), query)) {
    passage.append(mark ? element('mark', part) : part)
  }
  const whole = element('div', text, { id: `whole-${n}`, class: 'whole', hidden: '' })
  button.addEventListener('click', () => {
    whole.hidden = !whole.hidden
    button.setAttribute('aria-expanded', String(!whole.hidden))
  })
  const heading = element('h2')
  heading.append(button)
  const about = element('p', '', { class: 'about' })
  about.append(element('span', hit.score.toFixed(3), { class: 'score', title: 'score' }), ' ', element('code', id))
  item.append(heading, about, passage, whole)
  return item
}

// Down and up go through the results, / goes to the box, Escape empties it
function keyboard (box) {
  document.addEventListener('keydown', event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const stops = [box, ...document.querySelectorAll('#results h2 button')]
    const here = stops.indexOf(document.activeElement)
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step && here >= 0 && stops[here + step] && !(box.tagName === 'TEXTAREA' && here === 0)) stops[here + step].focus()
    else if (event.key === '/' && !boxes().includes(document.activeElement)) box.focus()
    else if (event.key === 'Escape') {
      const one = boxes().find(one => one === document.activeElement) ?? box
      one.value = ''
      one.focus()
      one.dispatchEvent(new Event('input'))
    }
    else return
    event.preventDefault()
  })
}

const asked = () => decodeURIComponent(location.hash.match(/^#q=(.*)/)?.[1] ?? '')

function remember (query) {
  try { history.replaceState(null, '', query ? `#q=${encodeURIComponent(query)}` : '#') } catch { /* not from a file */ }
}

async function ranker (settings, model, ask) {
  const index = new SearchIndex(await jsonPart('documents.json'), readTensors(await part('index.safetensors')))
  const search = async (query, { k = 5, mode = index.settings.modes[0] } = {}) => {
    const vector = mode === 'bm25' ? null : await model.run(query)
    return index.search(query, { k, mode, vector })
  }
  const modes = at('mode')
  const both = 'words and meaning'
  const names = { hybrid: both, table_hybrid: both, dense: 'meaning', table: 'meaning', bm25: 'words' }
  for (const mode of index.settings.modes) modes.append(element('option', names[mode], { value: mode }))
  at('choice').hidden = modes.length < 2
  const show = latest(async () => {
    const query = at('query').value
    remember(query.trim())
    if (!index.visible(query)) {
      at('results').replaceChildren()
      return status(`Ready: ${readable.format(index.documents)} documents.`)
    }
    const start = performance.now()
    const hits = await search(query, { k: 10, mode: modes.value })
    const took = performance.now() - start
    at('results').replaceChildren(...hits.map((hit, n) => shown(index, query, hit, n)))
    status(`${hits.length || 'No'} of ${readable.format(index.documents)} documents, ${took.toFixed(0)} ms.`)
  })
  modes.addEventListener('change', show)
  ask(show)
  return { index, search }
}

async function classifier (settings, model, ask) {
  const predict = async (...texts) => [...await model.run(...texts)]
  const show = latest(async () => {
    const texts = boxes().map(box => box.value)
    at('results').replaceChildren()
    if (!texts.every(text => text.trim())) return status(texts.length > 1 ? 'Ready: write both texts.' : 'Ready.')
    const start = performance.now()
    const values = await predict(...texts)
    const took = performance.now() - start
    const rows = values.map((value, i) => [value, settings.labels[i] ?? 'score']).sort((a, b) => b[0] - a[0])
    at('results').replaceChildren(...rows.map(([value, label]) => {
      const item = element('li', '', { class: 'label' })
      item.append(element('span', label), element('span', value.toFixed(3), { class: 'score' }))
      if (settings.labels.length) item.append(element('meter', '', { min: 0, max: 1, value, 'aria-label': label }))
      return item
    }))
    status(`${took.toFixed(0)} ms.`)
  })
  ask(show)
  return { predict }
}

async function start () {
  const box = at('query')
  status('Reading the model ...')
  const settings = await jsonPart('settings.json')
  const begun = performance.now()
  const model = await loadModel(settings)
  let timer
  const ask = show => {
    for (const one of boxes()) one.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(show, 120) })
    at('form').addEventListener('submit', event => { event.preventDefault(); clearTimeout(timer); show() })
    addEventListener('hashchange', () => { if (asked() !== box.value.trim()) { box.value = asked(); show() } })
    if (asked() && !box.value) box.value = asked()
    return show()
  }
  keyboard(box)
  const made = await (settings.kind === 'ranker' ? ranker : classifier)(settings, model, ask)
  document.body.dataset.ready = (performance.now() - begun).toFixed(0)
  return { settings, model, ...made }
}

globalThis.rankBert = start().catch(error => { status(`Error: ${error.message}`); throw error })
