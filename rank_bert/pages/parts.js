// The parts of this page.

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
