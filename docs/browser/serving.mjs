// Drives a browser through the page of a server: `npm ci` here once, start `rank_bert serve`, then
// `node docs/browser/serving.mjs http://127.0.0.1:8000 [PICTURE.png]`. The last line is `N passed, N failed`.
import { existsSync, readFileSync } from 'node:fs'
import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'

const [address, picture] = process.argv.slice(2)
const axe = readFileSync(new URL('node_modules/axe-core/axe.min.js', import.meta.url), 'utf8')
const browsers = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chromium-browser']
const executablePath = browsers.find(o => o && existsSync(o))
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--no-first-run'] })
const { models } = await (await fetch(`${address}/info`)).json()

// A fresh profile each; a request that leaves the server, an error, or a message of the console fails the test
async function open (path, { colorScheme = 'light', width = 1280 } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 800 }, colorScheme, bypassCSP: false })
  const page = await context.newPage()
  page.wrong = []
  page.on('console', m => m.type() === 'error' && page.wrong.push(m.text()))
  page.on('pageerror', e => page.wrong.push(e.message))
  page.on('request', r => r.url().startsWith(address) || page.wrong.push(`request to ${r.url()}`))
  await page.goto(address + path, { waitUntil: 'networkidle' })
  return page
}

async function close (page) {
  assert.deepEqual(page.wrong, [])
  await page.context().close()
}

async function accessible (page) {
  const found = await page.evaluate(`${axe}; axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html))`)
  assert.deepEqual(found, [])
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  assert.equal(wide, 0, 'the page is wider than the screen')
}

const asked = { ranker: 'where is the answer', classifier: 'where', tagger: 'where is dala', encoder: 'one\ntwo two\nthree' }
const expected = { ranker: /documents/, classifier: /./, tagger: /names/, encoder: /numbers a text/ }

// Only the keyboard: choose a model, write, ask
async function ask (page, model) {
  await page.focus('#model')
  const at = models.indexOf(model)
  await page.keyboard.press('Home')
  for (let i = 0; i < at; i++) await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Control+A')
  await page.keyboard.insertText(asked[model.kind])
  if (model.pairs) {
    await page.keyboard.press('Tab')
    await page.keyboard.insertText('another text')
  }
  await page.keyboard.press('Control+Enter')
  await page.waitForFunction(() => document.activeElement.id === 'title')  // where a screen reader goes on
  assert.match(await page.textContent('#title'), expected[model.kind])
  assert.ok((await page.textContent('#answer')).length > 0 || model.kind === 'classifier')
}

const tests = {}
for (const [name, how] of Object.entries({ light: {}, dark: { colorScheme: 'dark' }, small: { width: 400 } })) {
  tests[`every model, by keyboard, ${name}`] = async () => {
    const page = await open('/', how)
    for (const model of models) {
      await ask(page, model)
      await accessible(page)
      if (picture && model.kind === 'ranker') await page.screenshot({ path: picture.replace('.png', `-${name}.png`), fullPage: true })
    }
    await close(page)
  }
  tests[`the interface, ${name}`] = async () => {
    const page = await open('/docs', how)
    await accessible(page)
    await close(page)
  }
}
tests['markup in a text stays text'] = async () => {
  const page = await open('/')
  const model = models.find(m => m.kind === 'encoder') ?? models[0]
  await page.selectOption('#model', { index: models.indexOf(model) })
  await page.fill('#text', '<img src=x onerror=alert(1)><script>alert(2)</script>')
  await page.click('#go')
  await page.waitForFunction(() => document.activeElement.id === 'title')
  assert.equal(await page.locator('#answer img, #answer script').count(), 0)
  await close(page)
}
tests['an error is said, and the page goes on'] = async () => {
  const page = await open('/')
  await page.fill('#text', ' ')
  await page.click('#go')
  await page.waitForFunction(() => /Error: .*empty/.test(document.getElementById('said').textContent))
  page.wrong = page.wrong.filter(o => !/422/.test(o))
  await ask(page, models[0])
  await close(page)
}

let failed = 0
for (const [name, test] of Object.entries(tests)) {
  try { await test() } catch (e) {
    failed++
    console.log(`FAIL ${name}: ${e.message.slice(0, 1500)}`)
    continue
  }
  console.log(`ok ${name}`)
}
await browser.close()
console.log(`${Object.keys(tests).length - failed} passed, ${failed} failed`)
process.exit(failed ? 1 : 0)
