// Runs the conformance suite's scenarios against two servers, holds every check against expected.yml and prints the
// table. Started by conformance.sh with the suite's folder, the two programs, and a folder for the reports.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

const [home, fixtureProgram, taskyardProgram, out] = process.argv.slice(2)
const require = createRequire(join(resolve(home), 'node_modules', 'x'))
const yaml = require('yaml')
const suite = join(home, 'node_modules/@modelcontextprotocol/conformance')
const expectations = yaml.parse(readFileSync('crates/web/examples/conformance/expected.yml', 'utf8'))

// The suite has no frozen set for 2025-06-18: everything that it can run at that revision counts.
const VERSIONS = ['2025-06-18', '2025-11-25', '2026-07-28']
const work = mkdtempSync(join(tmpdir(), 'taskyard-conformance-'))
const reports = out ? resolve(out) : join(work, 'reports')

function requirements(version) {
  const file = join(suite, 'requirements', `${version}.yaml`)
  return existsSync(file) ? yaml.parse(readFileSync(file, 'utf8')) : undefined
}

// Starts a server and waits until `url` finds where it listens.
async function start(program, args, url) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('TASKYARD_')))
  const log = join(work, 'log')
  const server = spawn(program, args, { env, stdio: ['ignore', 'ignore', openSync(log, 'w')] })
  for (const deadline = Date.now() + 60_000; ; await pause(50)) {
    const found = url()
    if (found) return { url: `${found}/mcp`, stop: () => stop(server) }
    if (server.exitCode !== null || Date.now() > deadline) throw new Error(`${program} doesn't listen:\n${contents(log)}`)
  }
}

async function stop(server) {
  const gone = new Promise((done) => server.once('exit', done))
  server.kill('SIGTERM')
  await gone
}

function contents(file) {
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : ''
}

const SERVERS = {
  fixture: () => start(fixtureProgram, [join(work, 'url')], () => contents(join(work, 'url'))),
  taskyard: () => {
    const data = join(work, 'data')
    const args = ['--data-dir', data, 'serve', '--listen', '127.0.0.1:0', '--log', 'warn']
    return start(taskyardProgram, args, () => contents(join(data, 'server.json')) && JSON.parse(contents(join(data, 'server.json'))).url)
  },
}

// Runs everything that `version` asks for; gives the suite's verdict and every check.
function run(server, version, url) {
  const dir = join(reports, server, version)
  rmSync(dir, { recursive: true, force: true })
  const which = requirements(version) ? ['--requirements', version] : ['--suite', 'all', '--spec-version', version]
  const args = [join(suite, 'dist/index.js'), 'server', '--url', url, ...which, '-o', dir]
  const ran = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 1 << 28, timeout: 600_000 })
  if (!existsSync(dir)) throw new Error(`the suite ran nothing for ${version}:\n${ran.stdout}\n${ran.stderr}`)
  const checks = readdirSync(dir).flatMap((folder) => {
    const scenario = folder.replace(/^server-/, '').replace(/-\d{4}-\d\d-\d\dT.*$/, '')
    return JSON.parse(readFileSync(join(dir, folder, 'checks.json'), 'utf8')).map((check) => ({ scenario, ...check }))
  })
  return { verdict: ran.status, checks }
}

const failed = (check) => check.status === 'FAILURE' || check.status === 'WARNING'

// What differs from what is expected: failures without a reason, and reasons without a failure.
function compare(server, runs) {
  const complaints = []
  const entries = (expectations[server] ?? []).flatMap(({ reason, checks }) => checks.map((name) => ({ name, reason, used: false })))
  for (const [version, { checks }] of runs) {
    const byName = Map.groupBy(checks, (check) => `${check.scenario}:${check.id}`)
    for (const [name, group] of byName) {
      const entry = entries.find((entry) => entry.name === name)
      if (entry) entry.used = true
      const bad = group.find(failed)
      if (bad && !entry) complaints.push(`${version} ${name} fails: ${bad.errorMessage ?? bad.status}`)
      if (!bad && entry) complaints.push(`${version} ${name} passes, though it is expected to fail: ${entry.reason}`)
    }
  }
  for (const entry of entries) if (!entry.used) complaints.push(`${entry.name} is expected to fail, but the suite has no such check`)
  return complaints
}

function row(server, version, { checks }) {
  const wanted = requirements(version)
  const scored = checks.filter((check) => !wanted || wanted.server.includes(check.scenario))
  const rest = checks.filter((check) => !scored.includes(check))
  const count = (some) => {
    const passed = some.filter((check) => check.status === 'SUCCESS').length
    return `${passed}/${passed + some.filter(failed).length}`
  }
  return `| ${server} | ${version} | ${new Set(scored.map((check) => check.scenario)).size} | ${count(scored)} | ${rest.length ? count(rest) : '–'} |`
}

const rows = []
const complaints = []
try {
  for (const [name, begin] of Object.entries(SERVERS)) {
    const server = await begin()
    try {
      const runs = VERSIONS.map((version) => [version, run(name, version, server.url)])
      for (const [version, result] of runs) {
        rows.push(row(name, version, result))
        if (name === 'fixture' && result.verdict !== 0) complaints.push(`fixture: the suite's own verdict on ${version} is ${result.verdict}`)
      }
      complaints.push(...compare(name, runs).map((complaint) => `${name}: ${complaint}`))
    } finally {
      await server.stop()
    }
  }
} finally {
  rmSync(work, { recursive: true, force: true })
}
console.log('| server | revision | scored scenarios | their checks passed | passed of the others |\n|---|---|---|---|---|')
console.log(rows.join('\n'))
for (const complaint of complaints) console.error(`conformance: ${complaint}`)
console.log(complaints.length ? `conformance: ${complaints.length} checks are not as expected` : 'conformance: every check is as expected')
process.exit(complaints.length ? 1 : 0)
