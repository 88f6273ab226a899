// Drives a browser through the pages that rank_bert writes: `node docs/browser/report.mjs FOLDER`, after
// `python docs/browser/report.py FOLDER`. CHROMIUM names the browser where it is not found.
// The last line is `N passed, N failed`.
import { existsSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import assert from 'node:assert/strict'
import { chromium } from 'playwright-core'

const folder = pathToFileURL(resolve(process.argv[2]) + '/').href
const axe = readFileSync(fileURLToPath(new URL('node_modules/axe-core/axe.min.js', import.meta.url)), 'utf8')
const browsers = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome', '/usr/bin/chromium-browser']
const executablePath = browsers.find(o => o && existsSync(o))
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })

// A fresh profile each; an error on the page, or a request that leaves the folder, fails the test that opened it
async function open (name, { colorScheme = 'light', width = 1200, height = 900 } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme })
  const page = await context.newPage()
  page.wrong = []
  page.on('console', m => { if (m.type() === 'error') page.wrong.push(`console: ${m.text()}`) })
  page.on('pageerror', e => page.wrong.push(`error: ${e.message}`))
  page.on('request', r => { if (!/^(file|about|data):/.test(r.url())) page.wrong.push(`request to ${r.url()}`) })
  await page.goto(folder + name)
  return page
}

async function close (page) {
  await page.context().close()
  assert.deepEqual(page.wrong, [])
}

const said = page => page.locator('#said').innerText()

const tests = {
  async 'axe-core finds nothing, light and dark, with all parts opened' () {
    for (const name of ['map.html', 'report.html', 'explain.html']) {
      for (const colorScheme of ['light', 'dark']) {
        const page = await open(name, { colorScheme })
        await page.evaluate(() => { for (const o of document.querySelectorAll('details')) o.open = true })
        await page.evaluate(axe)
        const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }))
        assert.deepEqual(violations.map(v => `${name} ${colorScheme} ${v.id}: ${v.nodes[0].html.slice(0, 200)} ${v.nodes[0].failureSummary}`), [])
        await close(page)
      }
    }
  },

  async 'nothing is wider than 400 pixels' () {
    for (const name of ['map.html', 'report.html', 'explain.html']) {
      const page = await open(name, { width: 400, height: 800 })
      await page.evaluate(() => { for (const o of document.querySelectorAll('details')) o.open = true })
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), name)
      await close(page)
    }
  },

  async 'the keyboard goes through the map' () {
    const page = await open('map.html')
    await page.locator('#plot').focus()
    await page.keyboard.press('n')
    const first = await said(page)
    assert.match(first, /^query .*Relevant: d\d+/s)
    await page.keyboard.press('n')
    assert.notEqual(await said(page), first)
    await page.keyboard.press('p')
    assert.equal(await said(page), first)
    await page.keyboard.press('Escape')
    assert.equal(await said(page), '')
    const seen = new Set()
    for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'ArrowLeft', 'ArrowUp', '+', '-', '0']) {
      await page.keyboard.press(key)
      seen.add(await said(page))
    }
    assert.ok(seen.size >= 3, [...seen].join('|'))
    await close(page)
  },

  async 'a search finds a document, and a group can be chosen' () {
    const page = await open('map.html', { width: 400, height: 800 })
    await page.locator('#find').fill('d17')
    await page.keyboard.press('Enter')
    assert.match(await said(page), /^d17 /)
    const group = page.locator('#groups button').first()
    await group.click()
    assert.equal(await group.getAttribute('aria-pressed'), 'true')
    await group.click()
    assert.equal(await group.getAttribute('aria-pressed'), 'false')
    await close(page)
  },

  async 'a point says its name under the mouse, and dragging moves the map' () {
    const page = await open('map.html')
    const ink = () => page.evaluate(() => document.getElementById('plot').toDataURL())
    await page.locator('#plot').focus()
    await page.keyboard.press('n')
    await page.keyboard.press('Escape')
    const before = await ink()
    const box = await page.locator('#plot').boundingBox()
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width / 2 + 80, box.y + box.height / 2 + 30, { steps: 4 })
    await page.mouse.up()
    assert.notEqual(await ink(), before)
    await page.locator('#all').click()
    await page.mouse.move(5, 5)
    assert.equal(await ink(), before)
    await close(page)
  },

  async 'the links of the report lead to its sections, and the map inside works' () {
    const page = await open('report.html')
    const links = await page.locator('nav a').all()
    assert.ok(links.length >= 6)
    for (const link of links) assert.equal(await page.locator(await link.getAttribute('href')).count(), 1)
    await page.locator('summary', { hasText: 'Show the map' }).click()
    const inside = page.frameLocator('iframe')
    await inside.locator('#next').click()
    assert.match(await inside.locator('#said').innerText(), /^query /)
    await close(page)
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
