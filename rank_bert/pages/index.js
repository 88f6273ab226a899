// Scores of documents: BM25, cosine, and their sum; as `Ranker.search` has them.
import { gramKeys, gramWeights, wordKey, wordRules } from './words.js'

const KINDS = { U64: BigUint64Array, I64: BigInt64Array, I32: Int32Array, F32: Float32Array, I8: Int8Array,
  U16: Uint16Array }

// The arrays of a safetensors file
export function readTensors (bytes) {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true))
  const about = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)))
  const found = {}
  for (const [name, { dtype, data_offsets: [from, to] }] of Object.entries(about)) {
    if (name !== '__metadata__') found[name] = new KINDS[dtype](bytes.slice(8 + length + from, 8 + length + to).buffer)
  }
  return found
}

// Where a key is in an ascending array, or -1
function place (keys, key) {
  let low = 0, high = keys.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    if (keys[middle] === key) return middle
    if (keys[middle] < key) low = middle + 1
    else high = middle - 1
  }
  return -1
}

export class SearchIndex {
  constructor (settings, tensors) {
    Object.assign(this, { settings, tensors, known: new Map() }, wordRules(settings))
    this.noBlanks = new RegExp(`^[${settings.unspaced}]$`, 'u')
    this.documents = settings.documents
  }

  key (word) {
    if (!this.known.has(word)) this.known.set(word, wordKey(word))
    return this.known.get(word)
  }

  // BM25 of all documents
  byWords (query) {
    const { keys, starts, holders, weights } = this.tensors
    const scores = new Float32Array(this.documents)
    const { ngrams, pair_weight: pairWeight = 1 } = this.settings
    const words = this.words(query)
    const counts = gramWeights(words.map(word => this.noBlanks.test(word)), ngrams, pairWeight)
    gramKeys(words.map(word => this.key(word)), ngrams).forEach((key, n) => {
      const row = place(keys, key)
      if (row < 0) return
      for (let i = starts[row]; i < starts[row + 1]; i++) scores[holders[i]] += counts[n] * weights[i]
    })
    return scores
  }

  // Cosine of all passages with a query's vector of length one
  byVector (vector) {
    const { vectors, scales, owner } = this.tensors
    const scores = new Float32Array(owner.length)
    const dim = vector.length
    for (let row = 0, at = 0; row < scores.length; row++, at += dim) {
      let sum = 0
      for (let i = 0; i < dim; i++) sum += vectors[at + i] * vector[i]
      scores[row] = scales ? sum * scales[row] : sum
    }
    return scores
  }

  // Of each document, the best passage: its score and row
  bestPassages (scores) {
    const best = new Float32Array(this.documents).fill(-Infinity)
    const rows = new Int32Array(this.documents)
    this.tensors.owner.forEach((document, row) => {
      if (scores[row] > best[document]) [best[document], rows[document]] = [scores[row], row]
    })
    return { best, rows }
  }

  // What BM25 adds to the cosine
  scaled (words) {
    const { weight, standard } = this.settings.fusion
    if (!standard) return words.map(x => weight * x)
    const mean = words.reduce((sum, x) => sum + x, 0) / words.length
    const variance = words.reduce((sum, x) => sum + (x - mean) ** 2, 0) / words.length
    const deviation = Math.max(Math.sqrt(variance), 1e-6)
    return words.map(x => weight * Math.fround((x - mean) / deviation))
  }

  // Scores of all documents; `vector` is needed for all modes but 'bm25'
  scores (query, mode, vector) {
    const passages = mode === 'bm25' ? null : this.bestPassages(this.byVector(vector))
    const words = mode === 'dense' || mode === 'table' ? null : this.byWords(query)
    if (!passages) return { scores: words, rows: null }
    if (!words) return { scores: passages.best, rows: passages.rows }
    const added = this.scaled(words)
    return { scores: passages.best.map((x, i) => x + added[i]), rows: passages.rows }
  }

  // The `k` best documents: row, score, and row of the best passage
  search (query, { k = 5, mode = this.settings.modes[0], vector = null } = {}) {
    const { scores, rows } = this.scores(query, mode, vector)
    const { ties } = this.tensors
    const order = Array.from(scores.keys())
    order.sort((a, b) => scores[b] - scores[a] || ties[a] - ties[b])
    const found = order.slice(0, k).filter(i => mode !== 'bm25' || scores[i] > 0)
    return found.map(row => ({ row, score: scores[row], passage: rows ? rows[row] : this.byCount(query, row) }))
  }

  // The passage of a document that holds most different words of the query
  byCount (query, document) {
    const wanted = new Set(this.words(query))
    const { first } = this.tensors
    let best = first[document], most = -1
    for (let row = first[document]; row < first[document + 1]; row++) {
      const n = new Set(this.words(this.passage(row)).filter(word => wanted.has(word))).size
      if (n > most) [best, most] = [row, n]
    }
    return best
  }

  passage (row) {
    const span = this.settings.spans[row]
    const document = this.settings.rows[this.tensors.owner[row]]
    return typeof span === 'string' ? span : document.text.slice(...span)
  }

  // The parts of a text: [text, whether it is a word of the query]
  marked (text, query) {
    const wanted = new Set(this.words(query))
    const parts = []
    let at = 0
    for (const { word, start, end } of this.cut(text)) {
      if (!wanted.has(this.plain(word))) continue
      parts.push([text.slice(at, start), false], [text.slice(start, end), true])
      at = end
    }
    parts.push([text.slice(at), false])
    return parts.filter(([part]) => part)
  }
}
