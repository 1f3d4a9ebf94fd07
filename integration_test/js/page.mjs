// Runs an application in a page, which chromium.mjs serves together with what this imports. What it prints goes to
// /print, in order; what it takes comes from /lines; its name and its arguments are in /arguments.
import { createRoot } from 'react-dom/client'
import app from 'app'
import { start } from './start.mjs'

let sent = Promise.resolve()
const write = (line) => (sent = sent.then(() => fetch('/print', { method: 'POST', body: line })))
const fail = (e) => write(JSON.stringify({ event: 'error', message: `${e.message ?? e.reason}` }))
addEventListener('error', fail)
addEventListener('unhandledrejection', fail)

async function mount() {
  const place = document.body.appendChild(document.createElement('main'))
  const root = createRoot(place)
  const items = () => place.querySelector('ul') && Array.from(place.querySelectorAll('li'), (li) => li.textContent)
  return { render: (element) => root.render(element), items }
}

const take = start(app, await (await fetch('/arguments')).json(), write, mount)
new EventSource('/lines').onmessage = (e) => take(e.data)
