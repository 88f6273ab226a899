// The words of a text and their keys, as `rank_bert.lexical` has them.

const MASK = (1n << 64n) - 1n
const IV = [0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n]
const ORDER = ['0123456789abcdef', 'ea489fd61c02b753', 'b8c052fdae367194', '7931dcbe265a40f8', '905724afe1bc683d',
  '2c6a0b834d75fe19', 'c51fed4a0763928b', 'db7ec13950f4862a', '6fe9b308c2d714a5', 'a2847615fb9e3cd0']
  .map(row => [...row].map(c => parseInt(c, 16)))
const MIXED = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
  [0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]]

const turn = (x, bits) => (x >> bits) | ((x << (64n - bits)) & MASK)

function compress (state, block, length, last) {
  const v = [...state, ...IV]
  v[12] ^= BigInt(length)
  if (last) v[14] ^= MASK
  for (let round = 0; round < 12; round++) {
    const order = ORDER[round % 10]
    MIXED.forEach(([a, b, c, d], i) => {
      v[a] = (v[a] + v[b] + block[order[2 * i]]) & MASK
      v[d] = turn(v[d] ^ v[a], 32n)
      v[c] = (v[c] + v[d]) & MASK
      v[b] = turn(v[b] ^ v[c], 24n)
      v[a] = (v[a] + v[b] + block[order[2 * i + 1]]) & MASK
      v[d] = turn(v[d] ^ v[a], 16n)
      v[c] = (v[c] + v[d]) & MASK
      v[b] = turn(v[b] ^ v[c], 63n)
    })
  }
  return state.map((x, i) => x ^ v[i] ^ v[i + 8])
}

// BLAKE2b of 8 bytes as a number (RFC 7693)
export function wordKey (word) {
  const bytes = new TextEncoder().encode(word)
  const blocks = Math.max(1, Math.ceil(bytes.length / 128))
  const padded = new Uint8Array(blocks * 128)
  padded.set(bytes)
  const words = new DataView(padded.buffer)
  let state = IV.map((x, i) => i ? x : x ^ 0x01010008n)
  for (let b = 0; b < blocks; b++) {
    const block = Array.from({ length: 16 }, (_, i) => words.getBigUint64(b * 128 + i * 8, true))
    const last = b === blocks - 1
    state = compress(state, block, last ? bytes.length : (b + 1) * 128, last)
  }
  return state[0]
}

// Functions for the words of texts, as `settings` of an index describe them: `plain` gives a text in small letters,
// `cut` the words of a text with their places, `words` those that count, and `visible` whether there is anything to see; in
// `unspaced` scripts each character is a word
export function wordRules ({ unspaced, hidden, left_out: leftOut, english }) {
  const invisible = new RegExp(`[${hidden}]`, 'gu')
  const pattern = new RegExp(
    `[${unspaced}]|(?:(?<![\\p{L}\\p{N}_.])\\.)?(?![${unspaced}])[\\p{L}\\p{N}_]` +
    `(?:(?![${unspaced}])[\\p{L}\\p{N}_\\p{M}${hidden}])*` +
    '(?:\\+\\+|(?<=(?<![\\p{L}\\p{N}_])[\\p{L}\\p{N}_])#(?![\\p{L}\\p{N}_]))?', 'gu')
  const afterApostrophe = /(?<=[\p{L}\p{N}_])['’][stdm](?![\p{L}\p{N}_])/gu
  const out = new Set(leftOut)
  function plain (text) {
    text = text.replaceAll('´', "'").replace(/[\u2120\u2122]/g, ' ').normalize('NFKC').replaceAll('ʼ', "'")
    text = text.replace(invisible, '').replace(/(?<=[\u0400-\u052f])[\u0300\u0301]/g, '')
    text = text.toLowerCase().toUpperCase().toLowerCase()
    return text.replaceAll('i\u0307', 'i').replaceAll('ς', 'σ').normalize('NFC')
  }
  function cut (text) {
    return [...text.matchAll(pattern)].map(m => ({ word: m[0], start: m.index, end: m.index + m[0].length }))
  }
  function words (text) {
    text = plain(text)
    const all = cut(english ? text.replace(afterApostrophe, '') : text).map(o => o.word)
    const counted = all.filter(word => !out.has(word))
    return counted.length ? counted : all
  }
  const visible = text => /[^\p{C}\p{Z}\p{M}\u2800\ufffc]/u.test(plain(text)) // not blanks, controls or marks alone
  return { plain, cut, words, visible }
}

const FACTOR = 0x9e3779b97f4a7c15n

// Keys of words and of their n-grams: all words, then all pairs, and so on
export function gramKeys (keys, most) {
  const found = [...keys]
  let joined = keys
  for (let n = 1; n < most; n++) {
    joined = joined.slice(0, -1).map((key, i) => (key * FACTOR + keys[i + n]) & MASK)
    found.push(...joined)
  }
  return found
}

// What each of these counts: 1 for a word, and for neighbours of a character without blanks around it
export function gramWeights (alone, most, pairWeight) {
  const found = alone.map(() => 1)
  let joined = alone
  for (let n = 1; n < most; n++) {
    joined = joined.slice(0, -1).map((one, i) => one || alone[i + n])
    found.push(...joined.map(one => one ? 1 : pairWeight))
  }
  return found
}
