export const meta = {
  name: 'folder-digest', description: 'What is in a folder: kinds of files, sizes, headings and open TODOs',
  phases: ['List', 'Read'],
  args: { type: 'object', additionalProperties: false, required: ['folder'], properties: { folder: { type: 'string' } } },
  folders: { in: { from: 'args.folder', access: 'read' } },
  tools: ['list_directory', 'read_text_file'],
}
const SKIP = /(^|\/)(\.[^/]+|target|node_modules|dist|build)(\/|$)/
const TEXT = /\.(md|txt|rs|js|ts|py|toml|json|ya?ml|html|css|sh|sql)$/

phase('List')
const all = (await tool('list_directory', { path: 'in', recursive: true, details: true })).entries
const files = all.filter(f => f.kind === 'file' && !SKIP.test(f.path.slice(3)))
return { files: files.length }
