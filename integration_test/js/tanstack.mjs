// An application with the npm package @tanstack/electric-db-collection, see run.mjs: a collection whose changes are sent
// to an interface of the application, which answers with the id of the transaction; the collection then waits for it. It
// prints
//
//   {"event":"rows","rows":[…]}                                  what the collection has, at first and after changes
//   {"event":"write","operation":"insert","n":1,"value":{…}}     a call of that interface, whose answer is {"n":1,"txid":…}
//   {"event":"persisted","operation":…,"rows":[…]}               a change that was awaited, and what the collection has then
//
// and takes changes that a user makes, {"operation":"insert","value":{…}}, and those answers.
import { electricCollectionOptions } from '@tanstack/electric-db-collection'
import { createCollection } from '@tanstack/db'

export default async function tanstack({ url, params, options, print, fail }) {
  const calls = new Map()
  const send = (operation, value) =>
    new Promise((resolve) => {
      calls.set(calls.size + 1, resolve)
      print({ event: 'write', operation, n: calls.size, value })
    })
  const timeout = 30_000
  const items = createCollection(
    electricCollectionOptions({
      id: 'items',
      getKey: (item) => item.id,
      shapeOptions: { url, params, onError: fail, ...options },
      onInsert: async ({ transaction }) => ({ ...(await send('insert', transaction.mutations[0].modified)), timeout }),
      onUpdate: async ({ transaction }) => {
        const { original, changes } = transaction.mutations[0]
        return { ...(await send('update', { id: original.id, ...changes })), timeout }
      },
      onDelete: async ({ transaction, collection }) => {
        const { txid } = await send('delete', { id: transaction.mutations[0].original.id })
        await collection.utils.awaitTxId(txid, timeout) // the other way of the documentation
      },
    })
  )
  await items.preload()
  items.subscribeChanges(() => print({ event: 'rows', rows: items.toArray }), { includeInitialState: true })
  return async ({ n, txid, operation, value }) => {
    if (n) return calls.get(n)({ txid })
    const change = {
      insert: () => items.insert(value),
      update: () => items.update(value.id, (item) => Object.assign(item, value)),
      delete: () => items.delete(value.id),
    }[operation]()
    await change.isPersisted.promise
    print({ event: 'persisted', operation, rows: items.toArray })
  }
}
