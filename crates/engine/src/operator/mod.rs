//! What only the operator does, not offered as MCP tools of an agent: agents, profiles, settings.
