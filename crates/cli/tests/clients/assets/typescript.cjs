// A client on the official TypeScript SDK, first or second major version, led by lines of JSON on standard input.
//
// Its arguments: the folder that holds node_modules, and how to connect as JSON: {"transport": "http" | "sse" | "stdio",
// "era": "legacy" | "modern" | null, "url", "command", "args", "env"}. Each line out is the answer to a line in, or
// {"complaint"} where the SDK finds fault with the server.
const path = require('node:path');
const readline = require('node:readline');
const { createRequire } = require('node:module');

const [folder, how] = [process.argv[2], JSON.parse(process.argv[3])];
const load = createRequire(path.join(folder, 'package.json'));
const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');
const complain = (what) => say({ complaint: String(what) });
for (const level of ['log', 'info', 'warn', 'error']) console[level] = (...words) => complain(words.join(' '));

function sdk() {
  try {
    const { Client, StreamableHTTPClientTransport, SSEClientTransport } = load('@modelcontextprotocol/client');
    const { StdioClientTransport } = load('@modelcontextprotocol/client/stdio');
    return { second: true, Client, StreamableHTTPClientTransport, SSEClientTransport, StdioClientTransport };
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
  }
  const part = (name) => load(`@modelcontextprotocol/sdk/client/${name}.js`);
  return { ...part('index'), ...part('streamableHttp'), ...part('sse'), ...part('stdio') };
}

const { second, Client, StreamableHTTPClientTransport, SSEClientTransport, StdioClientTransport } = sdk();

function transport() {
  if (how.transport === 'stdio') return new StdioClientTransport({ command: how.command, args: how.args, env: how.env });
  const Kind = how.transport === 'sse' ? SSEClientTransport : StreamableHTTPClientTransport;
  return new Kind(new URL(how.url));
}

async function main() {
  const negotiation = how.era === 'modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {};
  const client = new Client({ name: 'taskyard-test', version: '1' }, negotiation);
  client.onerror = complain;
  const connection = transport();
  await client.connect(connection);
  say({ connected: (second && client.getNegotiatedProtocolVersion()) || connection.protocolVersion || 'unknown' });
  const running = new Map();

  async function perform(order) {
    try {
      if (order.do === 'list') return say({ id: order.id, tools: (await client.listTools()).tools.map((tool) => tool.name) });
      let progress = 0;
      const options = { signal: running.get(order.id).signal };
      if (order.timeout) options.timeout = order.timeout * 1000;
      if (order.progress) Object.assign(options, { resetTimeoutOnProgress: true, onprogress: () => progress++ });
      const params = { name: order.tool, arguments: order.arguments };
      const result = await (second ? client.callTool(params, options) : client.callTool(params, undefined, options));
      const { isError, structuredContent, content } = result;
      say({ id: order.id, error: Boolean(isError), structured: structuredContent, text: content[0].text, progress });
    } catch (error) {
      say({ id: order.id, failed: String(error) });
    }
  }

  for await (const line of readline.createInterface({ input: process.stdin })) {
    const order = JSON.parse(line);
    if (order.do === 'quit') break;
    if (order.do === 'cancel') running.get(order.id).abort('no longer needed');
    else {
      running.set(order.id, new AbortController());
      perform(order);
    }
  }
  if (connection.terminateSession) await connection.terminateSession();
  client.onerror = undefined;
  await client.close();
  say({ closed: true });
}

main().then(() => process.exit(0), (error) => { say({ failed: String(error && error.stack) }); process.exit(1); });
