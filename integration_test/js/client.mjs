// An application with the npm package @electric-sql/client, see run.mjs. It prints
//
//   {"event":"change","operation":"insert","key":…,"value":…}   a change message
//   {"event":"control","control":"up-to-date"|"must-refetch"}   a control message
//   {"event":"rows","rows":[…]}                                 the shape as the client sees it, after each batch
//   {"event":"subset","rows":[…]}                               the shape after a subset that was asked for
//   {"event":"response","status":200,"coding":"gzip"}           a response, where the options have "responses": true
//
// and takes the parameters of subsets to ask for (requestSnapshot): {"where":…,"orderBy":…}.
import { Shape, ShapeStream, snakeCamelMapper } from '@electric-sql/client'

export default function client({ url, params, options, print, fail }) {
  // These are true for functions, which JSON cannot carry.
  const { columnMapper, responses, ...others } = options
  if (columnMapper) others.columnMapper = snakeCamelMapper()
  if (responses) {
    others.fetchClient = async (...request) => {
      const response = await fetch(...request)
      print({ event: 'response', status: response.status, coding: response.headers.get('content-encoding') ?? '' })
      return response
    }
  }
  const stream = new ShapeStream({ url, params, onError: fail, ...others })
  stream.subscribe((messages) => {
    for (const m of messages) {
      if (m.headers.control) print({ event: 'control', control: m.headers.control })
      else print({ event: 'change', operation: m.headers.operation, key: m.key, value: m.value })
    }
  })
  const shape = new Shape(stream)
  shape.subscribe(({ rows }) => print({ event: 'rows', rows }))
  return async (subset) => {
    await shape.requestSnapshot(subset)
    print({ event: 'subset', rows: shape.currentRows })
  }
}
