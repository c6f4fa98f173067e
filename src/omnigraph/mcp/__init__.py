"""Graphs for agents: one registry of tools on a `Graph`, served with the MCP SDK.

`agent_tools` is the registry. Only `sdk_server` and `stdio` import the SDK, because that takes
more than a second.
"""
