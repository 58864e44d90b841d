//! The hub: relay API and MCP server, over a store
