// The encoder, run by onnxruntime-web.
import { jsonPart, library, part } from './parts.js'

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

  // Token ids of prompt and text with special tokens; of a longer text, the beginning or the end
  ids (text) {
    const { before, after, keep, max_tokens: most, lower, prompt, head } = this.settings
    text = prompt + text
    if (lower) text = text.replaceAll('\u03a3', '\u03c3') // JavaScript would make a final sigma of some
    let ids = this.tokenizer.encode(text.toWellFormed?.() ?? text, { add_special_tokens: false }).ids
    const room = most - before.length - after.length
    const over = ids.length - room
    if (over > 0) ids = keep === 'end' ? [...head, ...ids.slice(over + head.length)] : ids.slice(0, room) // the prompt stays
    return [...before, ...ids, ...after]
  }

  // The output for one text, or for two that are read separately
  async run (...texts) {
    const { output } = this.settings
    const given = {}
    texts.forEach((text, i) => {
      const ids = BigInt64Array.from(this.ids(text), BigInt)
      const tensor = data => new this.ort.Tensor('int64', data, [1, ids.length])
      const end = i ? '_2' : ''
      given[`input_ids${end}`] = tensor(ids)
      given[`attention_mask${end}`] = tensor(new BigInt64Array(ids.length).fill(1n))
    })
    return (await this.session.run(given, [output]))[output].data
  }
}

export const loadModel = settings => TextModel.load(settings)
