// An application with the npm package @electric-sql/react, see start.mjs: a component that shows a shape. It prints
//
//   {"event":"rows","rows":[{"id":…,"title":…}]}   what is on the screen, after each rendering
//
// and takes other parameters for the component: {"table":…,"where":…}.
import { useShape } from '@electric-sql/react'
import { createElement, useEffect } from 'react'

function Items({ url, params, options, rendered }) {
  const { isLoading, error, data } = useShape({ url, params, ...options })
  useEffect(() => rendered(error))
  if (isLoading) return createElement('p', null, 'loading')
  return createElement('ul', null, data.map(({ id, title }) => createElement('li', { key: id }, `${id}=${title}`)))
}

export default async function react({ url, params, options, print, fail, mount }) {
  const { render, items } = await mount()
  const rendered = (error) => {
    if (error) return fail(error)
    const rows = items()?.map((text) => {
      const [id, title] = text.split('=')
      return { id, title }
    })
    if (rows) print({ event: 'rows', rows })
  }
  const show = (params) => render(createElement(Items, { url, params, options, rendered }))
  show(params)
  return show
}
