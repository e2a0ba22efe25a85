"""A client on the official Python SDK, first or second major version, led by lines of JSON on standard input.

Its only argument says how to connect: {"transport": "http" | "sse" | "stdio", "era": "legacy" | "modern" | null, "url",
"command", "args", "env", "silence": seconds without a byte}. Each line out is the answer to a line in, or
{"complaint"} where the SDK finds fault with the server.
"""
import asyncio, contextlib, datetime, json, logging, sys
import anyio

try:
    from mcp import Client
except ImportError:
    Client = None


def say(**line):
    print(json.dumps(line), flush=True)


class Complaints(logging.Handler):
    def emit(self, record):
        say(complaint=f"{record.levelname} {record.name}: {record.getMessage()}")


def stdio(how):
    from mcp import StdioServerParameters, stdio_client

    return stdio_client(StdioServerParameters(command=how["command"], args=how["args"], env=how["env"]))


@contextlib.asynccontextmanager
async def first(how):
    """The session of the first major version: its calls and how to call one off."""
    from mcp import ClientSession, types

    silence = how.get("silence") or 300
    if how["transport"] == "stdio":
        transport = stdio(how)
    elif how["transport"] == "sse":
        from mcp.client.sse import sse_client

        transport = sse_client(how["url"], sse_read_timeout=silence)
    else:
        from mcp.client.streamable_http import streamablehttp_client

        transport = streamablehttp_client(how["url"], sse_read_timeout=silence)
    async with transport as streams, ClientSession(*streams[:2]) as session:
        say(connected=(await session.initialize()).protocolVersion)
        numbers = {}

        async def call(number, tool, arguments, timeout, progress):
            numbers[number] = session._request_id  # the one that it is about to use
            limit = timeout and datetime.timedelta(seconds=timeout)
            result = await session.call_tool(tool, arguments, limit, progress)
            return result.isError, result.structuredContent if hasattr(result, "structuredContent") else None, result.content

        async def cancel(number):
            params = types.CancelledNotificationParams(requestId=numbers[number], reason="no longer needed")
            note = types.CancelledNotification(method="notifications/cancelled", params=params)
            await session.send_notification(types.ClientNotification(note))

        yield session.list_tools, call, cancel


@contextlib.asynccontextmanager
async def second(how):
    """The same of the second major version, which calls off what is no longer awaited by itself."""
    import httpx2
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    mode = how.get("era") or "auto"
    if mode == "modern":
        mode = "2026-07-28"
    timeout = httpx2.Timeout(30, read=how.get("silence") or 300)
    async with create_mcp_http_client(timeout=timeout) as http:
        server = stdio(how) if how["transport"] == "stdio" else streamable_http_client(how["url"], http_client=http)
        async with Client(server, mode=mode) as client:
            say(connected=client.protocol_version)

            async def call(_, tool, arguments, timeout, progress):
                result = await client.call_tool(tool, arguments, timeout, progress)
                return result.is_error, result.structured_content, result.content

            async def cancel(_):
                pass

            yield client.list_tools, call, cancel


async def main():
    how = json.loads(sys.argv[1])
    logging.basicConfig(level=logging.WARNING, handlers=[Complaints()])
    async with (second if Client else first)(how) as (list_tools, call, cancel):
        running = {}

        async def perform(order):
            steps = 0

            async def progress(*_):
                nonlocal steps
                steps += 1

            try:
                if order["do"] == "list":
                    return say(id=order["id"], tools=[tool.name for tool in (await list_tools()).tools])
                hook = progress if order.get("progress") else None
                error, structured, content = await call(order["id"], order["tool"], order["arguments"], order.get("timeout"), hook)
                say(id=order["id"], error=bool(error), structured=structured, text=content[0].text, progress=steps)
            except asyncio.CancelledError:
                say(id=order["id"], failed="called off")
            except Exception as error:
                say(id=order["id"], failed=f"{type(error).__name__}: {error}")

        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            order = json.loads(line)
            if order["do"] == "quit":
                break
            if order["do"] == "cancel":
                await cancel(order["id"])
                running[order["id"]].cancel()
            else:
                running[order["id"]] = asyncio.ensure_future(perform(order))
    say(closed=True)


asyncio.run(main())
