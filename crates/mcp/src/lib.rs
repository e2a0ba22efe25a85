//! taskyard-mcp: filled in below.
