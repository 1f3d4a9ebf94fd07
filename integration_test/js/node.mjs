// Runs an application in Node:
//
//   node node.mjs client|react|tanstack URL '{"table":"items"}' ['{"liveSse":true}']
//
// What it prints comes on standard output, an object a line; what it takes are lines of standard input. It ends when
// standard input does.
import { createInterface } from 'node:readline'
import { start } from './start.mjs'

const [name, url, params, options = '{}'] = process.argv.slice(2)
const { default: app } = await import(`./${name}.mjs`)

async function mount() {
  const { create } = (await import('react-test-renderer')).default
  const root = create(null)
  const items = () => root.root.findAllByType('ul')[0]?.findAllByType('li').map((li) => li.children.join(''))
  return { render: (element) => root.update(element), items }
}

const take = start(app, { url, params: JSON.parse(params), options: JSON.parse(options) }, (line) => process.stdout.write(line + '\n'), mount)
const lines = createInterface({ input: process.stdin })
lines.on('line', take)
lines.on('close', () => process.exit(0))
