// Drives a browser through the built site: `npm ci` here once, then `node docs/browser/test.mjs [FOLDER]`.
// CHROMIUM names the browser where it is not found. The last line is `N passed, N failed`.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'

const here = fileURLToPath(new URL('.', import.meta.url))
const repository = join(here, '../..')
const site = process.argv[2] ?? join(repository, '_docs')
const read = (...path) => readFileSync(join(...path), 'utf8')
const files = (folder, end) => readdirSync(join(repository, folder), { recursive: true })
  .filter(o => o.endsWith(end) && !/(^|\/)[._]/.test(o))
const axe = read(here, 'node_modules/axe-core/axe.min.js')
const browsers = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chromium-browser']
const flags = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync']
const root = 'https://rank-bert.github.io/rank_bert/'  // never asked: what is under it comes from the folder
const source = 'https://github.com/rank-bert/rank_bert/blob/main/'
const colab = source.replace('github.com', 'colab.research.google.com/github')

const executablePath = browsers.find(o => o && existsSync(o))
if (!executablePath || !existsSync(join(site, 'index.html'))) {
  console.error(executablePath ? `${site} holds no site: python docs/build.py` : 'no Chromium: name it in CHROMIUM')
  process.exit(2)
}
const pages = read(site, 'sitemap.xml').match(/(?<=rank_bert\/)[^<]*\.html/g)
const first = ['tutorials/', 'explanations/', 'benchmarks/', 'experiments/'].map(o => pages.find(p => p.startsWith(o))).filter(Boolean)
const main = ['index.html', 'losses.html', 'rankers/ranker.html', ...first]
const browser = await chromium.launch({ executablePath, args: flags })

// A page's file, or none; a folder's is its index.html
function local (url) {
  if (!url.startsWith(root)) return null
  const path = decodeURIComponent(new URL(url).pathname.slice(new URL(root).pathname.length))
  const file = join(site, path)
  return !existsSync(file) ? null : statSync(file).isDirectory() ? join(file, 'index.html') : file
}

// A fresh profile each; whatever goes wrong on a page, or leaves the machine, fails the test that opened it
async function open (path, { colorScheme = 'light', width = 1280, height = 900, expect = 200 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme })
  const page = await context.newPage()
  page.wrong = []
  page.on('console', m => {
    if (m.type() === 'error' && !(expect === 404 && /404/.test(m.text()))) page.wrong.push(`console: ${m.text()}`)
  })
  page.on('pageerror', e => page.wrong.push(`error: ${e.message}`))
  page.on('response', r => {
    if (r.status() >= 400 && r.status() !== expect) page.wrong.push(`${r.status()} for ${r.url()}`)
  })
  await context.route('**/*', route => {
    const url = route.request().url()
    if (!url.startsWith(root)) page.wrong.push(`request to ${url}`)
    const file = local(url)
    return route.fulfill({ status: file ? 200 : 404, path: file ?? join(site, '404.html') })
  })
  const response = await page.goto(root + path, { waitUntil: 'networkidle' })
  await page.waitForLoadState()  // a slow machine may still be reading a page whose network is idle
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
  const where = v => v.nodes.slice(0, 3).map(n => n.html.slice(0, 150)).join(' | ')
  return violations.map(v => `${v.id}: ${v.help}: ${where(v)} (${v.nodes.length})`)
}

// What a page holds; runs in the browser
function read_page () {
  const all = (query, get) => [...document.querySelectorAll(query)].map(get)
  const markup = /.*(:::|\{(py:|doc|ref|raw)|^#\| |\]\([\w./#-]+\)|\$\$|^```|WARNING|<span|<\/\w+>).*/gm
  const prose = document.body.cloneNode(true)
  for (const o of prose.querySelectorAll('code, pre, kbd, samp, script, style, noscript, mjx-container')) o.remove()
  return {
    ids: all('[id], a[name]', o => o.id || o.name),
    links: all('a[href]', o => o.href),
    colab: all('a.colab', o => o.href),
    sources: all('dt[id] a[href*="#L"]', o => [o.closest('dt').id, o.href]),
    mute: all('img:not([alt]), .cell_output svg:not([aria-label], button *)', o => o.outerHTML.slice(0, 80)),
    meta: Object.fromEntries(all('meta[content]', o => [o.getAttribute('property') ?? o.name, o.content])),
    wide: document.documentElement.scrollWidth - window.innerWidth,
    raw: prose.textContent.match(markup) ?? []
  }
}

// Whether a link to lines of a file leads to the definition of a symbol
function defines ([symbol, link]) {
  const [, path, from, to] = link.slice(source.length).match(/^(.+)#L(\d+)-L(\d+)$/)
  const lines = read(repository, path).split('\n').slice(from - 1, to)
  const name = symbol.split('.').at(-1)
  return lines.some(line => new RegExp(`^\\s*((async )?def|class) ${name}\\b|^[\\w, ]*\\b${name}\\b[\\w, ]*(:.*)?=`).test(line))
}

// The names that the modules offer
function public_names () {
  return files('rank_bert', '.py').flatMap(file => {
    const names = read(repository, 'rank_bert', file).match(/^__all__ = \[([^\]]*)\]/m)?.[1].match(/\w+/g) ?? []
    return names.map(name => `rank_bert.${file.slice(0, -3).replaceAll('/', '.')}.${name}`)
  })
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
    for (const section of ['Rank documents', 'Classify, tag, embed', 'Ranks of matrices', 'Tutorials', 'Benchmarks', 'Experiments']) {
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

  async 'every page opens without an error, fits a screen of 400 pixels, and all it links to is there' () {
    const found = {}
    const wrong = []
    for (const path of [...pages, 'genindex.html', 'search.html']) {
      const page = await open(path, { width: 400, height: 800 })
      const o = found[path] = await page.evaluate(read_page)
      await page.context().close()
      wrong.push(...[...page.wrong, ...o.raw, ...o.mute.map(o => `no description of ${o}`)].map(o => `${path}: ${o}`))
      if (!pages.includes(path)) continue
      if (o.wide > 0) wrong.push(`${path} is ${o.wide} pixels too wide`)
      const lacks = ['og:title', 'og:description', 'og:image', 'description'].filter(key => !o.meta[key])
      if (lacks.length || !local(o.meta['og:image'])) wrong.push(`${path} lacks what previews show: ${lacks}`)
    }
    for (const [path, o] of Object.entries(found)) {
      for (const link of o.links) {
        const [url, anchor] = link.split('#')
        const target = found[url.slice(root.length) || 'index.html']
        const there = link.startsWith(source)
          ? existsSync(join(repository, url.slice(source.length)))
          : !link.startsWith(root) || (local(url) && (!anchor || !target || target.ids.includes(decodeURI(anchor))))
        if (!there) wrong.push(`${path} links to ${link}, which is not there`)
      }
      wrong.push(...o.sources.filter(pair => !defines(pair)).map(pair => pair.join(' is not defined at ')))
    }
    const named = new Set(found['index.html'].links.map(o => o.split('#')[0]))
    wrong.push(...pages.filter(o => !named.has(root + o)).map(o => `the home page does not name ${o}`))
    const ids = new Set(Object.values(found).flatMap(o => o.ids))
    wrong.push(...public_names().filter(o => !ids.has(o)).map(o => `${o} has no entry`))
    const copies = read(site, 'llms.txt').match(/(?<=\]\()[^)]+/g)
    wrong.push(...copies.filter(o => !local(o)).map(o => `llms.txt names ${o}, which is not there`))
    assert.deepEqual(wrong, [])
    const notebooks = files('nbs', '.ipynb').map(o => `${colab}nbs/${o}`)
    assert.deepEqual(Object.values(found).flatMap(o => o.colab).sort(), notebooks.sort())
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

  async 'an address from before there were folders leads to the page' () {
    for (const [old, now] of [['lowrank', 'matrix/lowrank'], ['light', 'matrix/prune'], ['lance_ranker', 'scale/lance_ranker']]) {
      const page = await open(`${old}.html`)
      await page.waitForURL(new RegExp(`${now}\\.html`))
      assert.equal(await page.locator('article h1').count(), 1)
      await close(page)
    }
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
console.log(`${passed} passed, ${failed} failed`)
process.exit(failed ? 1 : 0)
