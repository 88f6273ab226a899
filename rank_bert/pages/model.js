// The encoder, run by onnxruntime-web, and the parts of this page.

const parts = globalThis.rankBertParts

async function inflated (text) {
  const decode = Uint8Array.fromBase64 ?? (text => Uint8Array.from(atob(text), c => c.charCodeAt(0)))
  const stream = new Blob([decode.call(Uint8Array, text)]).stream().pipeThrough(new DecompressionStream('gzip'))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

// The bytes of a part, which is then forgotten
export async function part (name) {
  const text = parts[name]
  delete parts[name]
  if (text === undefined) throw new Error(`the part ${name} of this page is missing: export it again`)
  return inflated(text)
}

export const jsonPart = async name => JSON.parse(new TextDecoder().decode(await part(name)))

// A library of this page as a module
export async function library (name) {
  const url = URL.createObjectURL(new Blob([await part(name)], { type: 'text/javascript' }))
  try { return await import(url) } finally { URL.revokeObjectURL(url) }
}

export class TextModel {
  constructor (settings, tokenizer, ort, session) { Object.assign(this, { settings, tokenizer, ort, session }) }

  static async load (settings) {
    const { Tokenizer } = await library('tokenizers.min.mjs')
    const tokenizer = new Tokenizer(await jsonPart('tokenizer.json'), {})
    const ort = await library('ort.wasm.bundle.min.mjs')
    ort.env.wasm.numThreads = 1
    ort.env.wasm.wasmBinary = await part('ort-wasm-simd-threaded.wasm')
    const session = await ort.InferenceSession.create(await part('model.onnx'), { executionProviders: ['wasm'] })
    return new TextModel(settings, tokenizer, ort, session)
  }

  // Token ids with special tokens; of a longer text, the beginning or the end
  ids (text) {
    const { before, after, keep, max_tokens: most, lower } = this.settings
    if (lower) text = text.replaceAll('\u03a3', '\u03c3') // JavaScript would make a final sigma of some
    let ids = this.tokenizer.encode(text.toWellFormed?.() ?? text, { add_special_tokens: false }).ids
    const room = most - before.length - after.length
    if (ids.length > room) ids = keep === 'end' ? ids.slice(ids.length - room) : ids.slice(0, room)
    return [...before, ...ids, ...after]
  }

  // The output for one text
  async run (text) {
    const ids = BigInt64Array.from(this.ids(text), BigInt)
    const tensor = data => new this.ort.Tensor('int64', data, [1, ids.length])
    const { output } = this.settings
    const given = { input_ids: tensor(ids), attention_mask: tensor(new BigInt64Array(ids.length).fill(1n)) }
    return (await this.session.run(given, [output]))[output].data
  }
}
