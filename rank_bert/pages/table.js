// A table of token vectors in the place of the encoder, as `rank_bert.hand_over.token_table` has it: no library, no wasm.
import { readTensors } from './index.js'
import { jsonPart, part } from './parts.js'

const SIGN = '[\\p{P}!-/:-@\\[-`{-~]'
const WORDS = new RegExp(`${SIGN}|(?:(?!${SIGN})\\P{White_Space})+`, 'gu')
const IDEOGRAPHS = new RegExp('[\\u4e00-\\u9fff\\u3400-\\u4dbf\\u{20000}-\\u{2a6df}\\u{2a700}-\\u{2b73f}' +
  '\\u{2b740}-\\u{2b81f}\\u{2b920}-\\u{2ceaf}\\uf900-\\ufaff\\u{2f800}-\\u{2fa1f}]', 'gu')

// A function that gives the token ids of a text, without special tokens, as BERT's tokenizer does
export function wordPieces (vocabulary, { unknown, prefix, longest, clean, ideographs, accents, lower, compose }) {
  const ids = new Map(vocabulary.map((word, id) => [word, id]))

  function simple (text) {
    if (compose) text = text.normalize('NFC')
    if (clean) text = text.replace(/[\0\ufffd]|(?![\t\n\r])[\p{Cc}\p{Cf}\p{Co}]/gu, '')
    if (ideographs) text = text.replace(IDEOGRAPHS, ' $& ')
    if (accents) text = text.normalize('NFD').replace(/\p{Mn}/gu, '')
    return lower ? Array.from(text, c => c.toLowerCase()).join('') : text // one by one: no final sigma
  }

  // The longest pieces from the left; one unknown token where a part of the word is in none
  function cut (word) {
    const letters = [...word]
    const found = []
    for (let start = 0, end; start < letters.length; start = end) {
      let id
      for (end = letters.length; end > start; end--) {
        id = ids.get((start ? prefix : '') + letters.slice(start, end).join(''))
        if (id !== undefined) break
      }
      if (id === undefined) return [ids.get(unknown)]
      found.push(id)
    }
    return found
  }

  return text => (simple(text).match(WORDS) ?? [])
    .flatMap(word => [...word].length > longest ? [ids.get(unknown)] : cut(word))
}

export class TableModel {
  constructor (settings, cut, table) { Object.assign(this, { settings, cut, table }) }

  static async load (settings) {
    const cut = wordPieces(await jsonPart('vocabulary.json'), settings.tokenizer)
    return new TableModel(settings, cut, readTensors(await part('table.safetensors')))
  }

  // Token ids; of a longer text, the end
  ids (text) { return this.cut(text.toWellFormed?.() ?? text).slice(-this.settings.room) }

  // The vector of a text, at length one; zeros for a text without a known token
  run (text) {
    const { rows, scale, at } = this.table
    const dim = rows.length / scale.length
    const counts = new Map()
    for (const id of this.ids(text)) if (at[id] >= 0) counts.set(at[id], (counts.get(at[id]) ?? 0) + 1)
    const sum = new Float64Array(dim)
    for (const [row, n] of counts) {
      const weight = scale[row] * Math.sqrt(n)
      for (let i = 0; i < dim; i++) sum[i] += weight * rows[row * dim + i]
    }
    const length = Math.max(Math.hypot(...sum), 1e-12)
    return Float32Array.from(sum, x => x / length)
  }
}

export const loadModel = settings => TableModel.load(settings)
