// Follows a shape with the unmodified npm client and prints what it is told, a JSON object a line:
//
//   node follow.mjs URL '{"table":"items"}' ['{"liveSse":true}']
//
//   {"event":"change","operation":"insert","key":…,"value":…}   a change message
//   {"event":"control","control":"up-to-date"|"must-refetch"}    a control message
//   {"event":"rows","rows":[…]}                                  the shape as the client sees it, after each batch
//   {"event":"subset","rows":[…]}                                the shape after a subset that was asked for
//   {"event":"error","message":…}                                the stream ended
//
// A line of standard input is the parameters of a subset to ask for (requestSnapshot): {"where":…,"orderBy":…}. It ends
// when standard input does.
import { createInterface } from 'node:readline'
import { Shape, ShapeStream, snakeCamelMapper } from '@electric-sql/client'

const [url, params, optionsText = '{}'] = process.argv.slice(2)
// "columnMapper": true stands for a function, which JSON cannot carry.
const { columnMapper, ...options } = JSON.parse(optionsText)
if (columnMapper) options.columnMapper = snakeCamelMapper()
const print = (o) => process.stdout.write(JSON.stringify(o, (_, v) => (typeof v === 'bigint' ? v.toString() : v)) + '\n')

const abort = new AbortController()
const stream = new ShapeStream({
  url: `${url}/v1/shape`,
  params: JSON.parse(params),
  signal: abort.signal,
  onError: (e) => print({ event: 'error', message: String(e) }),
  ...options,
})
stream.subscribe((messages) => {
  for (const m of messages) {
    if (m.headers.control) print({ event: 'control', control: m.headers.control })
    else print({ event: 'change', operation: m.headers.operation, key: m.key, value: m.value })
  }
})
const shape = new Shape(stream)
shape.subscribe(({ rows }) => print({ event: 'rows', rows }))

const lines = createInterface({ input: process.stdin })
lines.on('line', (line) => {
  shape.requestSnapshot(JSON.parse(line)).then(
    () => print({ event: 'subset', rows: shape.currentRows }),
    (e) => print({ event: 'error', message: String(e) })
  )
})
lines.on('close', () => {
  abort.abort()
  process.exit(0)
})
