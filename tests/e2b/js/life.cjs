// The life of a sandbox, from create to kill, with E2B's SDK for JavaScript and a real control plane. Prints, as JSON,
// what user code would see.
//
//     E2B_API_KEY=… node life.cjs TEMPLATE OTHER-API-KEY
//
// Where the API and the sandboxes are stands in the environment, as the SDK reads it.

const { Sandbox } = require('e2b')

const [template, other] = process.argv.slice(2)
const metadata = { who: 'life-js', words: 'b c=d&e/ü' }
const came = {}

async function step(name, call) {
  try {
    came[name] = { value: await call() }
  } catch (error) {
    came[name] = { exception: error.constructor.name, message: error.message }
  }
}

async function listed(query) {
  const pages = Sandbox.list({ query, limit: 2 })
  const found = []
  while (pages.hasNext) found.push(...(await pages.nextItems()).map((box) => box.sandboxId))
  return found
}

async function main() {
  const box = await Sandbox.create(template, { metadata, envs: { GREETING: 'hello there' }, timeoutMs: 300_000 })
  const echo = async () => (await box.commands.run('echo $GREETING')).stdout
  const info = async () => {
    const seen = await box.getInfo()
    return [seen.templateId, JSON.stringify(seen.metadata) === JSON.stringify(metadata), seen.state]
  }
  const minutes = async () => Math.round(((await box.getInfo()).endAt.getTime() - Date.now()) / 60_000)

  await step('isRunning', () => box.isRunning())
  await step('env', echo)
  await step('write', async () => (await box.files.write('note.txt', 'written by the SDK')).path)
  await step('read', () => box.files.read('note.txt'))
  await step('info', info)
  await step('setTimeout', async () => (await box.setTimeout(900_000), await minutes()))
  await step('listed', async () => (await listed({ metadata, state: ['running', 'paused'] })).join() === box.sandboxId)
  await step('metrics', async () => {
    const [now, ...more] = await box.getMetrics()
    return [now.cpuCount > 0, 0 < now.memUsed && now.memUsed <= now.memTotal, more.length]
  })
  await step('unknownTemplate', () => Sandbox.create('no-such-template'))
  await step('wrongKey', () => Sandbox.create(template, { apiKey: 'e2b_' + '0'.repeat(40) }))
  await step('otherInfo', () => Sandbox.getInfo(box.sandboxId, { apiKey: other }))
  await step('otherKill', () => Sandbox.kill(box.sandboxId, { apiKey: other }))
  await step('pause', () => box.pause())
  await step('pauseAgain', () => box.pause())
  await step('paused', info)
  await step('connect', async () => (await Sandbox.connect(box.sandboxId)).sandboxId === box.sandboxId)
  await step('resumed', info)
  await step('resumedEnv', echo)
  await step('many', async () => {
    const made = await Promise.all(Array.from({ length: 5 }, () => Sandbox.create(template, { timeoutMs: 300_000 })))
    const kills = await Promise.all(made.map((one) => one.kill()))
    return [new Set(made.map((one) => one.sandboxId)).size, kills.every(Boolean)]
  })
  await step('kill', () => box.kill())
  await step('killAgain', () => box.kill())
  await step('killedInfo', () => box.getInfo())
  console.log(JSON.stringify(came))
}

main()
