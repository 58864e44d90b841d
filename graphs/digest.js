export const meta = {
  name: 'digest', description: 'Sum up a folder: what is in it, what is big, what is new, what is left to do',
  phases: ['List', 'Read', 'Sum up'],
  args: { type: 'object', additionalProperties: false, required: ['folder'], properties: { folder: { type: 'string' } } },
  folders: { in: { from: 'args.folder', access: 'read' } },
  tools: ['list_directory', 'read_text_file', 'search_files'],
  limits: { max_agents: 0, timeout: '2m' },
}
const MOST_FILES = 500, MOST_CHARS = 60000
const short = path => path.slice('in/'.length)
const type = name => name.lastIndexOf('.') > 0 ? name.slice(name.lastIndexOf('.') + 1).toLowerCase() : 'other'
const BINARY = ['lock', 'png', 'jpg', 'jpeg', 'gif', 'ico', 'pdf', 'zip', 'gz', 'woff', 'woff2', 'ttf', 'mp4']

phase('List')
const { entries, truncated } = await tool('list_directory', { path: 'in', recursive: true, details: true })
const files = entries.filter(f => f.kind === 'file')
const wanted = files.filter(f => f.size < 1e6 && !BINARY.includes(type(f.name))).slice(0, MOST_FILES)
log(`${files.length} files, ${wanted.length} of them to be read`)

phase('Read')
const types = {}
for (const f of files) (types[type(f.name)] ??= { files: 0, bytes: 0, lines: 0 }, types[type(f.name)].files++, types[type(f.name)].bytes += f.size)
const documents = []
let done = 0, lines = 0, words = 0
await map(wanted, async f => {
  const { text } = await tool('read_text_file', { path: f.path, max_chars: MOST_CHARS }).catch(() => ({ text: '' }))
  const rows = text.split('\n')
  lines += rows.length
  types[type(f.name)].lines += rows.length
  words += text.replaceAll('\n', ' ').split(' ').filter(Boolean).length
  if (type(f.name) === 'md') documents.push({ file: short(f.path), title: rows.find(r => r.startsWith('#'))?.replace(/^#+ */, '') ?? null })
  if (++done % 25 === 0 || done === wanted.length) progress(done, wanted.length, short(f.path))
}, { concurrency: 8 })

phase('Sum up')
const found = await Promise.all(['TODO', 'FIXME'].map(text => tool('search_files', { path: 'in', text, max_results: 200 })))
const todo = found.flatMap(f => f.matches).map(m => `${short(m.path)}:${m.line}: ${m.text.slice(0, 100)}`)
const top = (key, shown) => [...files].sort((a, b) => b[key] - a[key]).slice(0, 5).map(f => ({ file: short(f.path), ...shown(f) }))
return {
  folder: args.folder, files: files.length, folders: entries.filter(f => f.kind === 'directory').length, ...(truncated && { truncated }),
  bytes: files.reduce((sum, f) => sum + f.size, 0), lines, words,
  types: Object.fromEntries(Object.entries(types).sort(([, a], [, b]) => b.bytes - a.bytes).slice(0, 10)),
  biggest: top('size', f => ({ bytes: f.size })), newest: top('modified_ms', f => ({ changed: new Date(f.modified_ms).toISOString().slice(0, 16) })),
  documents: documents.sort((a, b) => a.file < b.file ? -1 : 1).slice(0, 15), todo: { count: todo.length, first: todo.slice(0, 8) },
}
