// Runs an application in a page of headless Chromium, with the arguments, output and input of node.mjs, and the browser's
// path before them:
//
//   node chromium.mjs /usr/bin/chromium client|react|tanstack URL '{"table":"items"}' ['{"liveSse":true}']
//
// The page's origin is a server of its own, http://localhost on a free port.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const [chromium, name, url, params, options = '{}'] = process.argv.slice(2)
const file = (name) => fileURLToPath(new URL(name, import.meta.url))
const bundle = await build({
  entryPoints: [file('page.mjs')],
  alias: { app: file(`${name}.mjs`) },
  bundle: true,
  write: false,
  format: 'esm',
  define: { 'process.env.NODE_ENV': '"production"' },
})

// Lines of input wait here until the page listens.
let page
const waiting = []
const send = (line) => (page ? page.write(`data: ${line}\n\n`) : waiting.push(line))
const resources = {
  '/': (_, res) => res.setHeader('Content-Type', 'text/html').end('<!doctype html><title>test</title><body><script type=module src=/page.js></script>'),
  '/page.js': (_, res) => res.setHeader('Content-Type', 'text/javascript').end(bundle.outputFiles[0].text),
  '/arguments': (_, res) => res.end(JSON.stringify({ url, params: JSON.parse(params), options: JSON.parse(options) })),
  '/lines': (_, res) => {
    page = res.setHeader('Content-Type', 'text/event-stream')
    page.flushHeaders()
    waiting.splice(0).forEach(send)
  },
  '/print': async (req, res) => {
    process.stdout.write(Buffer.concat([...(await req.toArray()), Buffer.from('\n')]))
    res.end()
  },
}
const server = createServer((req, res) => {
  const resource = resources[req.url]
  if (resource) resource(req, res)
  else res.writeHead(404).end()
})
await new Promise((listening) => server.listen(0, 'localhost', listening))

const profile = mkdtempSync(join(tmpdir(), 'shapeserver-chromium-'))
const browser = spawn(
  chromium,
  [
    '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--disable-extensions',
    '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-proxy-server',
    '--enable-logging=stderr', `--user-data-dir=${profile}`, `http://localhost:${server.address().port}/`,
  ],
  { stdio: ['ignore', 'ignore', 'pipe'], detached: true } // a process group, which can be ended as a whole
)
createInterface({ input: browser.stderr }).on('line', (line) => {
  if (/:(CONSOLE|FATAL)[:(]/.test(line)) console.error(line) // the rest is about the desktop that is not there
})
let stopping = false
browser.on('error', (e) => end(`${chromium}: ${e.message}`))
browser.on('exit', (code, signal) => end(stopping ? '' : `${chromium} ended by itself (${signal ?? code})`))

function end(problem) {
  if (problem) console.error(problem)
  rmSync(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }) // its helpers may still write there
  process.exit(problem ? 1 : 0)
}

const lines = createInterface({ input: process.stdin })
lines.on('line', send)
function stop() {
  stopping = true
  process.kill(-browser.pid, 'SIGKILL')
}
lines.on('close', stop)
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, stop) // the browser's group does not get them
