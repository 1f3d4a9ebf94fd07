// Starts an application of this folder, in Node (node.mjs) or in a page of a browser (page.mjs). It is a function
//
//   app({ url, params, options, print, fail, mount }) → take
//
// of the shape endpoint, the parameters and options of a shape stream, a function that prints an object, one that prints
// an error as {"event":"error","message":…}, and one that makes a place to render React elements into. What it returns
// takes the objects that the test sends.
export function start(app, { url, params, options }, write, mount) {
  const print = (o) => write(JSON.stringify(o, (_, v) => (typeof v === 'bigint' ? v.toString() : v)))
  const fail = (e) => print({ event: 'error', message: String(e) })
  const take = (async () => app({ url: `${url}/v1/shape`, params, options, print, fail, mount }))()
  take.catch(fail)
  return (line) => take.then((f) => f(JSON.parse(line))).catch(fail)
}
