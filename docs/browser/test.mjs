// Drives a browser through the built site: `npm ci` here once, then `node docs/browser/test.mjs [FOLDER]`.
// CHROMIUM names the browser where it is not found. The last line is `N passed, N failed`.
import { createServer } from 'node:http'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { extname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'
import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'

const here = fileURLToPath(new URL('.', import.meta.url))
const site = process.argv[2] ?? join(here, '../../_docs')
const axe = readFileSync(join(here, 'node_modules/axe-core/axe.min.js'), 'utf8')
const browsers = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chromium-browser']
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync']
const types = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript', '.svg': 'image/svg+xml', '.png': 'image/png',
  '.json': 'application/json', '.xml': 'text/xml', '.txt': 'text/plain', '.woff2': 'font/woff2' }
const base = '/rank_bert/'  // where the site lives on its host, so that absolute links are tried too

// GitHub Pages in small: files of the folder, 404.html for the rest
const server = createServer((request, response) => {
  const path = decodeURIComponent(new URL(request.url, 'http://x').pathname)
  let file = path.startsWith(base) ? join(site, normalize(path.slice(base.length)) || '.') : null
  if (file && existsSync(file) && statSync(file).isDirectory()) file = join(file, 'index.html')
  const found = file && existsSync(file)
  response.writeHead(found ? 200 : 404, { 'content-type': found ? types[extname(file)] ?? 'application/octet-stream' : 'text/html' })
  response.end(readFileSync(found ? file : join(site, '404.html')))
})

const executablePath = browsers.find(o => o && existsSync(o))
if (!executablePath || !existsSync(join(site, 'index.html'))) {
  console.error(executablePath ? `${site} holds no site: python docs/build.py` : 'no Chromium found: install it, or name it in CHROMIUM')
  process.exit(2)
}
await new Promise(done => server.listen(0, '127.0.0.1', done))
const root = `http://127.0.0.1:${server.address().port}${base}`
const pages = readFileSync(join(site, 'sitemap.xml'), 'utf8').match(/(?<=rank_bert\/)[^<]*\.html/g)
const main = ['index.html', 'losses.html', 'ranker.html', ...['tutorials/', 'benchmarks/', 'experiments/'].map(o => pages.find(p => p.startsWith(o))).filter(Boolean)]
const browser = await chromium.launch({ executablePath, args: flags })

// A fresh profile each; whatever goes wrong on a page, or leaves the machine, fails the test that opened it
async function open (path, { colorScheme = 'light', width = 1280, height = 900, expect = 200 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme })
  const page = await context.newPage()
  page.wrong = []
  page.on('console', m => { if (m.type() === 'error' && !(expect === 404 && /404/.test(m.text()))) page.wrong.push(`console: ${m.text()}`) })
  page.on('pageerror', e => page.wrong.push(`error: ${e.message}`))
  page.on('request', r => { if (!r.url().startsWith(root) && !r.url().startsWith('data:')) page.wrong.push(`request to ${r.url()}`) })
  page.on('response', r => { if (r.status() >= 400 && r.status() !== expect) page.wrong.push(`${r.status()} for ${r.url()}`) })
  const response = await page.goto(root + path, { waitUntil: 'networkidle' })
  assert.equal(response.status(), expect)
  return page
}

async function close (page) {
  await page.context().close()
  assert.deepEqual(page.wrong, [])
}

async function accessible (page) {
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }))
  return violations.map(v => `${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map(n => n.html.slice(0, 150)).join(' | ')} (${v.nodes.length})`)
}

const background = page => page.evaluate(() => getComputedStyle(document.body).backgroundColor)
const brightness = color => color.match(/\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3

const tests = {
  async 'home shows a ranking, the two commands and the map' () {
    const page = await open('index.html')
    assert.equal(await page.locator('article h1').count(), 1)
    assert.match(await page.locator('article table.dataframe').first().innerText(), /shutil\.copytree/)
    assert.ok(await page.locator('article figure.plot svg').first().isVisible())
    const code = (await page.locator('article pre').allInnerTexts()).join('\n')
    for (const command of ['rank_bert demo', 'tools/test.py']) assert.ok(code.includes(command), command)
    for (const section of ['Rank and classify', 'Ranks of matrices', 'Tutorials', 'Benchmarks', 'Experiments']) {
      assert.ok(await page.locator('.bd-sidebar-primary .caption-text', { hasText: section }).isVisible(), section)
    }
    await close(page)
  },

  async 'a symbol is found by the search and its entry opened' () {
    const page = await open('index.html')
    await page.keyboard.press('Control+k')
    await page.locator('input[name=q]:visible').first().fill('barlow_twins_loss')
    await page.keyboard.press('Enter')
    const hit = page.locator('#search-results a', { hasText: 'barlow_twins_loss' }).first()
    await hit.waitFor()
    await hit.click()
    await page.waitForURL(/losses\.html/)
    const entry = page.locator('[id="rank_bert.losses.barlow_twins_loss"]')
    assert.match(await entry.innerText(), /barlow_twins_loss/)
    const target = page.locator('dl.py table').filter({ hasText: 'Meaning' }).first()
    assert.ok(await target.isVisible())
    await close(page)
  },

  async 'every page opens without an error, has its Colab link, and fits a screen of 400 pixels' () {
    for (const path of pages) {
      const page = await open(path, { width: 400, height: 800 })
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth)
      assert.ok(wide <= 0, `${path} is ${wide} pixels too wide`)
      if (!/^(changelog|contributing)/.test(path)) {
        assert.match(await page.locator('a.colab').getAttribute('href'), /^https:\/\/colab\.research\.google\.com\/github\/.+\.ipynb$/)
      }
      await close(page)
    }
  },

  async 'the menu of a small screen leads to another page' () {
    const page = await open('index.html', { width: 400, height: 800 })
    await page.locator('button.primary-toggle:visible').click()
    await page.locator('.bd-sidebar-primary a:visible, dialog a:visible', { hasText: /^\s*losses\s*$/ }).first().click()
    await page.waitForURL(/losses\.html/)
    await close(page)
  },

  async 'dark mode is chosen by a button, is dark, and stays' () {
    const page = await open('index.html')
    assert.ok(brightness(await background(page)) > 200)
    await page.locator('button.theme-switch-button:visible').click()
    await page.locator('button.theme-change-button[data-mode=dark]').click()
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark')
    await page.waitForTimeout(500)  // colours fade
    assert.ok(brightness(await background(page)) < 60)
    const ink = await page.locator('figure.plot svg text').first().evaluate(o => getComputedStyle(o).fill)
    assert.ok(brightness(ink) > 150, `text of the plot is ${ink}`)
    await page.goto(root + 'losses.html', { waitUntil: 'networkidle' })
    assert.ok(brightness(await background(page)) < 60)
    await close(page)
  },

  async 'dark mode follows the system' () {
    const page = await open('losses.html', { colorScheme: 'dark' })
    assert.ok(brightness(await background(page)) < 60)
    await close(page)
  },

  async 'the keyboard reaches the content first' () {
    const page = await open('losses.html')
    await page.keyboard.press('Tab')
    assert.match(await page.evaluate(() => document.activeElement.innerText), /skip/i)
    await page.keyboard.press('Enter')
    assert.match(page.url(), /#main-content$/)
    await close(page)
  },

  async 'formulas are set without the network' () {
    const page = await open('losses.html')
    await page.locator('mjx-container').first().waitFor()
    assert.equal(await page.locator('mjx-merror').count(), 0)
    await close(page)
  },

  async 'an unknown address shows the page for it, with working links' () {
    const page = await open('no/such/page.html', { expect: 404 })
    assert.match(await page.locator('article h1').innerText(), /not found/i)
    await page.locator('.bd-sidebar-primary a', { hasText: /^\s*losses\s*$/ }).first().click()
    await page.waitForURL(/losses\.html/)
    await close(page)
  },

  async 'axe-core finds nothing on the main pages, light and dark' () {
    const found = []
    for (const path of [...main, 'search.html?q=encoder']) {
      for (const colorScheme of ['light', 'dark']) {
        const page = await open(path, { colorScheme })
        found.push(...(await accessible(page)).map(v => `${path} ${colorScheme}: ${v}`))
        await close(page)
      }
    }
    assert.ok(!found.length, '\n' + found.join('\n'))
  }
}

let passed = 0, failed = 0
for (const [name, test] of Object.entries(tests)) {
  try {
    await test()
    console.log(`ok ${name}`)
    passed++
  } catch (error) {
    console.log(`FAIL ${name}: ${error.message}`)
    failed++
  }
}
await browser.close()
server.close()
console.log(`${passed} passed, ${failed} failed`)
process.exit(failed ? 1 : 0)
