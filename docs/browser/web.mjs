// Drives exported pages in a browser: `node docs/browser/web.mjs FOLDER [NAME]`, with what `tools/pages.py` wrote there:
// pages, and expected.json: [{name, file, kind, texts, ...}]. The last line is `N passed, N failed`.
import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { extname, join, normalize, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'

const here = fileURLToPath(new URL('.', import.meta.url))
const folder = resolve(process.argv[2])
const expected = JSON.parse(readFileSync(join(folder, 'expected.json'), 'utf8'))
const axe = readFileSync(join(here, 'node_modules/axe-core/axe.min.js'), 'utf8')
const browsers = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chromium-browser']
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync']
const browser = await chromium.launch({ executablePath: browsers.find(o => o && existsSync(o)), args: flags })

const kinds = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8' }
const server = createServer((request, answer) => {
  const file = join(folder, normalize(decodeURIComponent(new URL(request.url, 'http://a').pathname)))
  if (!existsSync(file)) return answer.writeHead(404).end()
  answer.writeHead(200, { 'content-type': kinds[extname(file)] ?? 'application/octet-stream' })
  createReadStream(file).pipe(answer)
})
await new Promise(done => server.listen(0, '127.0.0.1', done))
const root = `http://127.0.0.1:${server.address().port}/`

// A fresh profile; an error on the console or a request for anything but the page's own files fails the test
async function open (file, { http = false, hash = '', colorScheme = 'light', width = 1000 } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme })
  const page = await context.newPage()
  const own = http ? root : pathToFileURL(join(folder, file, '..')).href
  page.wrong = []
  page.on('console', m => { if (['error', 'warning'].includes(m.type())) page.wrong.push(`console: ${m.text()}`) })
  page.on('pageerror', e => page.wrong.push(`error: ${e.message}`))
  page.on('request', r => {
    if (!r.url().startsWith(own) && !/^(blob|data):/.test(r.url())) page.wrong.push(`request to ${r.url()}`)
  })
  await page.goto((http ? root + file : pathToFileURL(join(folder, file)).href) + hash)
  await page.waitForFunction(() => document.body.dataset.ready, null, { timeout: 120000 })
  return page
}

async function close (page) {
  await page.context().close()
  assert.deepEqual(page.wrong, [])
}

// One text, or both of a pair
async function type (page, text) {
  const boxes = ['#query', '#pair']
  for (const [i, one] of [text].flat().entries()) await page.fill(boxes[i], one)
}

const largest = (a, b) => Math.max(...a.map((x, i) => Math.abs(x - b[i])))
const tests = {}

for (const one of expected) {
  const { name, file, kind, http, exact } = one
  if (kind === 'ranker') {
    tests[`${name}: scores and order are those of Python`] = async () => {
      const page = await open(file, { http })
      const found = await page.evaluate(async ({ texts, modes }) => {
        const { model, index } = await globalThis.rankBert
        const out = []
        for (const text of texts) {
          const start = performance.now()
          const vector = await model.run(text)
          const took = performance.now() - start
          const scores = modes.map(mode => [...index.scores(text, mode, vector).scores])
          const rows = modes.map(mode => index.search(text, { k: 10, mode, vector }).map(o => o.row))
          const order = rows.map(of => of.map(row => index.settings.rows[row].id))
          const passages = index.search(text, { k: 3, mode: modes[0], vector }).map(o => index.passage(o.passage))
          const begun = performance.now()
          index.search(text, { k: 10, mode: modes[0], vector })
          out.push({ ids: model.ids(text), scores, rows, order, passages, took, search: performance.now() - begun })
        }
        return out
      }, one)
      let apart = 0
      let same = 0
      let places = 0
      let lost = 0
      found.forEach((o, i) => {
        const want = one.expected[i]
        assert.deepEqual(o.ids, want.ids, one.texts[i])
        one.modes.forEach((mode, m) => {
          const off = largest(o.scores[m], want.scores[m])
          apart = Math.max(apart, off)
          if (exact || mode === 'bm25') assert.ok(off < 1e-4, `${mode} differs by ${off} for ${one.texts[i]}`)
          same += Number(o.order[m][0] === want.order[m][0])
          places++
          const first = o.rows[m][0]
          if (first !== undefined) lost = Math.max(lost, Math.max(...want.scores[m]) - want.scores[m][first])
          if (exact) assert.deepEqual(o.order[m], want.order[m], `${mode}: ${one.texts[i]}`)
        })
        if (exact) assert.deepEqual(o.passages, want.passages)
      })
      const middle = key => found.map(o => o[key]).sort((a, b) => a - b)[found.length >> 1].toFixed(2)
      console.log(`  ${found.length} texts, scores within ${apart.toExponential(1)}, first place ${same} of ${places}, ` +
        `at most ${lost.toExponential(1)} below, vector ${middle('took')} ms, search ${middle('search')} ms, start ${await page.evaluate(() => document.body.dataset.ready)} ms`)
      // eight bits change the order of documents whose scores are nearly equal, and no other
      assert.ok(same >= places * 0.9, `the first document is the same for ${same} of ${places}`)
      assert.ok(lost < 0.01, `in Python, a first document is ${lost} below the best`)
      await close(page)
    }

    tests[`${name}: typed, read, by keyboard`] = async () => {
      const page = await open(file, { http })
      const items = page.locator('#results li')
      await page.evaluate(() => document.activeElement.blur())
      await page.keyboard.press('/')
      await page.keyboard.type(one.texts[0])
      assert.equal(await page.locator('#query').inputValue(), one.texts[0])
      await page.locator('#results mark').first().waitFor() // the first results may be of half a query
      await page.locator('#query').press('Enter')
      await page.waitForFunction(text => decodeURIComponent(location.hash) === `#q=${text}`, one.texts[0])
      assert.match(await page.locator('#status').innerText(), /of [\d,]+ documents, \d+ ms/)
      const first = one.expected[0].order[0][0]
      await items.first().locator('code', { hasText: first }).waitFor()
      await page.waitForTimeout(500)
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('ArrowDown')
      await page.keyboard.press('Enter')
      assert.ok(await items.nth(1).locator('.whole').isVisible())
      assert.equal(await items.nth(1).locator('button').getAttribute('aria-expanded'), 'true')
      await page.keyboard.press('Escape')
      await items.first().waitFor({ state: 'detached' })
      assert.equal(await page.locator('#query').inputValue(), '')
      await close(page)
    }

    tests[`${name}: a link with a query, the other modes, a query without a known word`] = async () => {
      const page = await open(file, { http, hash: `#q=${encodeURIComponent(one.texts[0])}` })
      await page.locator('#results li').first().waitFor()
      for (const mode of [...one.modes.filter(o => o !== 'bm25').slice(-1), 'bm25']) {
        await page.selectOption('#mode', mode)
        const first = one.expected[0].order[one.modes.indexOf(mode)][0]
        if (exact || mode === 'bm25') await page.locator('#results li:first-child code', { hasText: first }).waitFor()
      }
      await page.fill('#query', 'qqqqqqzzzz')
      await page.locator('#status', { hasText: 'No of' }).waitFor()
      await page.fill('#query', '<img src=x onerror=alert(1)> \ud800')
      await page.waitForTimeout(400)
      assert.equal(await page.locator('img').count(), 0)
      await close(page)
    }
  } else {
    tests[`${name}: labels are those of Python`] = async () => {
      const page = await open(file, { http })
      const found = await page.evaluate(async texts => {
        const { predict } = await globalThis.rankBert
        const out = []
        for (const text of texts) out.push(await predict(...[text].flat()))
        return out
      }, one.texts)
      found.forEach((values, i) => assert.ok(largest(values, one.expected[i]) < (exact ? 1e-4 : 0.05), String(one.texts[i])))
      await type(page, one.texts[0])
      await page.locator('#results li').first().waitFor()
      const best = one.expected[0].indexOf(Math.max(...one.expected[0]))
      assert.equal(await page.locator('#results li span').first().innerText(), one.labels[best] ?? 'score')
      if (Array.isArray(one.texts[0])) { // '/' is a character of the second text, and without it there is no answer
        await page.locator('#pair').press('/')
        assert.equal(await page.locator('#pair').inputValue(), one.texts[0][1] + '/')
        await page.locator('#pair').press('Escape')
        await page.locator('#status', { hasText: 'write both texts' }).waitFor()
        assert.equal(await page.locator('#query').inputValue(), one.texts[0][0])
      }
      await close(page)
    }
  }

  tests[`${name}: axe-core finds nothing, light and dark, and it fits 400 pixels`] = async () => {
    for (const colorScheme of ['light', 'dark']) {
      const page = await open(file, { http, colorScheme, width: 400 })
      await type(page, one.texts[0])
      await page.locator('#results li').first().waitFor()
      if (kind === 'ranker') await page.locator('#results button').first().click()
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
      assert.ok(wide <= 0, `${wide} pixels too wide`)
      const shade = await page.evaluate(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number))
      assert.equal(shade[0] < 60, colorScheme === 'dark')
      if (one.pictures) await page.screenshot({ path: join(folder, `${name.replaceAll(' ', '_')}_${colorScheme}.png`) })
      await page.evaluate(axe)
      const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }))
      assert.deepEqual(violations.map(v => `${v.id}: ${v.help}: ${v.nodes[0].html.slice(0, 150)}`), [])
      await close(page)
    }
  }

  tests[`${name}: the page cannot ask for anything else`] = async () => {
    const page = await open(file, { http })
    const blocked = await page.evaluate(() => fetch('http://127.0.0.1:9/').then(() => 'sent', e => e.message))
    assert.notEqual(blocked, 'sent')
    assert.ok(page.wrong.some(o => /Content Security Policy/.test(o)), page.wrong.join())
    await page.context().close()
  }
}

let passed = 0, failed = 0
for (const [name, test] of Object.entries(tests).filter(([name]) => name.startsWith(process.argv[3] ?? ''))) {
  try {
    await test()
    console.log(`ok ${name}`)
    passed++
  } catch (error) {
    console.log(`FAIL ${name}: ${error.message.slice(0, 1500)}`)
    failed++
  }
}
await browser.close()
server.close()
console.log(`${passed} passed, ${failed} failed`)
process.exit(failed ? 1 : 0)
