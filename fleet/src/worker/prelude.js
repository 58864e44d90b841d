// The verbs of a Graph, in the language they are called from. Runs once, before the script, in a function of its own:
// what is not defined on the global object below stays out of the script's sight. `host` has three functions, `call`
// (a promise of the parent's answer), `tell` (an event) and `spent`; everything they take is JSON text.
//
// The intrinsics that the verbs need are taken aside first, so that a script which changes them harms only itself.
(function (host, global) {
  'use strict'
  const { stringify } = JSON
  const { isArray } = Array
  const { isFinite } = Number
  const { freeze, defineProperty, entries, keys } = Object
  const { min, max, pow, floor } = Math
  const MAX_ITEMS = 4096
  // Items under way at once unless a script asks for fewer: enough to keep every agent's place filled, few enough that
  // a control error stops a long list before most of it has begun.
  const DEFAULT_CONCURRENCY = 64

  // Errors

  class GraphError extends Error {
    constructor(message, { code = '', retryable = false, ...rest } = {}) {
      super(message, rest)
      this.code = code
      this.retryable = retryable
    }
  }
  const hidden = (target, name, value) => defineProperty(target, name, { value, writable: true, configurable: true })
  const named = (name, parent) => {
    const type = { [name]: class extends parent {} }[name]
    hidden(type.prototype, 'name', name)
    return type
  }
  hidden(GraphError.prototype, 'name', 'GraphError')
  class ControlError extends GraphError {}
  const errors = {
    GraphError,
    AgentError: named('AgentError', GraphError),
    ToolError: named('ToolError', GraphError),
    ApprovalError: named('ApprovalError', GraphError),
    BudgetExceededError: named('BudgetExceededError', ControlError),
    LimitError: named('LimitError', ControlError),
    CircuitOpenError: named('CircuitOpenError', ControlError),
    CancelledError: named('CancelledError', ControlError),
    TypeError,
  }
  function makeError(name, code, message, retryable, line, column) {
    const type = errors[name] ?? GraphError
    const error = new type(message, { code, retryable })
    if (line > 0) {
      hidden(error, 'line', line)
      hidden(error, 'column', column)
    }
    return error
  }
  const isControl = error => error instanceof ControlError
  const describe = error => error instanceof Error
    ? {
        name: `${error.name}`, code: `${error.code ?? ''}`, message: `${error.message}`,
        retryable: error.retryable === true, line: error.line, column: error.column,
      }
    : { name: 'Error', code: '', message: `${error}`, retryable: false }

  // Checks

  const isObject = value => typeof value === 'object' && value !== null && !isArray(value)
  function options(verb, given, allowed) {
    if (given === undefined || given === null) return {}
    if (!isObject(given)) throw new TypeError(`${verb}(): the options must be an object`)
    for (const key of keys(given)) {
      if (!allowed.includes(key)) {
        throw new TypeError(`${verb}(): unknown option '${key}'; it takes ${allowed.join(', ')}`)
      }
    }
    return given
  }
  function needString(verb, what, value) {
    if (typeof value !== 'string') throw new TypeError(`${verb}(): ${what} must be a string, not ${typeof value}`)
    return value
  }
  function whole(verb, name, value, least, most) {
    if (!isFinite(value) || floor(value) !== value || value < least || value > most) {
      throw new TypeError(`${verb}(): ${name} must be a whole number from ${least} to ${most}`)
    }
    return value
  }
  function items(verb, value, what) {
    if (!isArray(value)) throw new TypeError(`${verb}(): the first argument must be an array of ${what}`)
    if (value.length > MAX_ITEMS) {
      throw new errors.LimitError(`${verb}(): ${value.length} items; at most ${MAX_ITEMS} a call`, { code: 'items' })
    }
    return value
  }
  function needFunction(verb, value, what) {
    if (typeof value === 'function') return value
    if (typeof value?.then === 'function') {
      throw new TypeError(`${verb}(): ${what} is a promise, which has already started: write \`() => agent(…)\``)
    }
    throw new TypeError(`${verb}(): ${what} must be a function, such as \`() => agent(…)\``)
  }
  const milliseconds = (verb, name, value) => {
    if (typeof value === 'number' && isFinite(value) && value >= 0) return value
    const match = typeof value === 'string' && /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)\s*$/.exec(value)
    if (!match) throw new TypeError(`${verb}(): ${name} must be milliseconds or a text like '30s' or '5m'`)
    return match[1] * { ms: 1, s: 1e3, m: 6e4, min: 6e4, h: 36e5, d: 864e5 }[match[2]]
  }

  // Work

  let phaseNow

  function agent(prompt, given) {
    needString('agent', 'the prompt', prompt)
    const { retry: again, ...rest } = options('agent', given, [
      'label', 'phase', 'schema', 'data', 'model', 'system', 'tools', 'maxTurns', 'maxTokens', 'timeout', 'retry', 'key',
    ])
    if (rest.maxTurns !== undefined) whole('agent', 'maxTurns', rest.maxTurns, 1, 100)
    if (rest.maxTokens !== undefined) whole('agent', 'maxTokens', rest.maxTokens, 1, 1e9)
    if (rest.timeout !== undefined) rest.timeout = milliseconds('agent', 'timeout', rest.timeout)
    const input = stringify({ phase: phaseNow, ...rest, prompt })
    return again ? retry(() => host.call('agent', input), again) : host.call('agent', input)
  }

  function tool(name, input = {}) {
    needString('tool', 'the name', name)
    return host.call('tool', stringify({ name, input }))
  }

  function graph(name, args = {}) {
    needString('graph', 'the name', name)
    if (!isObject(args)) throw new TypeError('graph(): the arguments must be an object')
    return host.call('graph', stringify({ name, args }))
  }

  function sleep(duration) {
    return host.call('sleep', stringify({ ms: milliseconds('sleep', 'the duration', duration) }))
  }

  async function retry(attempts, given) {
    needFunction('retry', attempts, 'the first argument')
    const {
      maxAttempts = 3, initialDelay = '1s', backoffFactor = 2, maxDelay = '60s', jitter = true, retryOn,
    } = options('retry', given, ['maxAttempts', 'initialDelay', 'backoffFactor', 'maxDelay', 'jitter', 'retryOn'])
    whole('retry', 'maxAttempts', maxAttempts, 1, 10)
    if (!isFinite(backoffFactor) || backoffFactor < 1) throw new TypeError('retry(): backoffFactor must be 1 or more')
    const first = milliseconds('retry', 'initialDelay', initialDelay)
    const most = milliseconds('retry', 'maxDelay', maxDelay)
    const wanted = isArray(retryOn)
      ? error => retryOn.includes(error?.code) || retryOn.includes(error?.name)
      : retryOn === undefined ? () => true : needFunction('retry', retryOn, 'retryOn')
    for (let attempt = 1; ; attempt++) {
      try {
        return await attempts(freeze({ attempt }))
      } catch (error) {
        if (isControl(error) || attempt === maxAttempts || !wanted(error)) throw error
        const full = min(most, first * pow(backoffFactor, attempt - 1))
        const delay = floor(jitter ? full * (0.5 + Math.random() / 2) : full)
        host.tell('retry', stringify({ attempt, delay_ms: delay, error: describe(error) }))
        await host.call('sleep', stringify({ ms: delay, quiet: true }))
      }
    }
  }

  // Runs `start(0)` to `start(count - 1)`, so many at once. Whatever happens, it settles only when every item that
  // began has ended: no agent is left at work behind the script's back.
  async function all(verb, count, start, given) {
    const { concurrency = DEFAULT_CONCURRENCY, onError = 'null' } = options(verb, given, ['concurrency', 'onError'])
    whole(verb, 'concurrency', concurrency, 1, MAX_ITEMS)
    if (!['null', 'settle', 'throw'].includes(onError)) {
      throw new TypeError(`${verb}(): onError must be 'null', 'settle' or 'throw'`)
    }
    const results = []
    for (let i = 0; i < count; i++) results.push(null)
    let next = 0
    let stopped
    async function lane() {
      while (next < count && !stopped) {
        const i = next++
        try {
          const value = await start(i)
          results[i] = onError === 'settle' ? { status: 'fulfilled', value } : value
        } catch (error) {
          if (isControl(error) || onError === 'throw') stopped ??= { error }
          if (isControl(error)) return
          host.tell('item_failed', stringify(describe(error)))
          if (onError === 'settle') results[i] = { status: 'rejected', reason: error }
        }
      }
    }
    const lanes = []
    for (let i = 0; i < min(concurrency, count); i++) lanes.push(lane())
    for (const running of lanes) await running
    if (stopped) throw stopped.error
    return results
  }

  async function parallel(thunks, given) {
    items('parallel', thunks, 'functions').forEach((thunk, i) => needFunction('parallel', thunk, `item ${i}`))
    const list = [...thunks]
    return all('parallel', list.length, i => list[i](), given)
  }

  async function map(list, each, given) {
    const copy = [...items('map', list, 'items')]
    needFunction('map', each, 'the second argument')
    return all('map', copy.length, i => each(copy[i], i), given)
  }

  async function pipeline(list, ...stages) {
    const copy = [...items('pipeline', list, 'items')]
    const given = isObject(stages.at(-1)) ? stages.pop() : undefined
    if (stages.length === 0) throw new TypeError('pipeline(): at least one stage must follow the items')
    stages.forEach((stage, i) => needFunction('pipeline', stage, `stage ${i + 1}`))
    return all('pipeline', copy.length, async i => {
      let value = copy[i]
      for (const stage of stages) value = await stage(value, copy[i], i)
      return value
    }, given)
  }

  // Telling

  function phase(title) {
    phaseNow = needString('phase', 'the title', title)
    host.tell('phase', stringify({ title }))
  }
  const show = value => {
    if (typeof value === 'string') return value
    if (value instanceof Error) return `${value}`
    try {
      return stringify(value) ?? `${typeof value === 'symbol' ? 'a symbol' : value}`
    } catch {
      return 'a value that has no JSON'
    }
  }
  function log(message, data) {
    let shown
    try {
      shown = stringify({ message: show(message), data })
    } catch {
      shown = stringify({ message: show(message), data: 'a value that has no JSON' })
    }
    host.tell('log', shown)
  }
  const print = (...values) => host.tell('log', stringify({ message: values.map(show).join(' ') }))
  const console = freeze({ log: print, info: print, warn: print, error: print, debug: print })
  function progress(done, total, message) {
    if (!isFinite(done) || !isFinite(total)) throw new TypeError('progress(): done and total must be numbers')
    host.tell('progress', stringify({ done, total, message: message === undefined ? undefined : show(message) }))
  }
  // Called once by the host, when it knows the total; what it returns then takes its place.
  const budget = total => freeze({
    total,
    spent: () => host.spent(),
    remaining: () => total === null ? Infinity : max(0, total - host.spent()),
  })

  const { TypeError: _, ...types } = errors
  const verbs = { agent, tool, graph, sleep, retry, parallel, map, pipeline, phase, log, progress, budget, console }
  for (const [name, value] of entries({ ...verbs, ...types })) {
    if (typeof value === 'function' && name !== 'budget') freeze(value)
    defineProperty(global, name, { value, writable: false, enumerable: false, configurable: name === 'budget' })
  }
  return makeError
})
