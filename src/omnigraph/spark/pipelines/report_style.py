"""The style sheet of the report page, for light and dark screens."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --ink: #1c2330; --soft: #667085; --line: #e3e7ee;
  --accent: #4457c9; --good: #18794e; --warn: #a15c07; --bad: #c1292e; --idle: #9aa4b5;
  --source: #e9f2ff; --step: #f2effd; --target: #e7f6ee;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151c; --card: #1a1f29; --ink: #e6eaf2; --soft: #98a2b3; --line: #2c3443;
    --accent: #93a2ff; --good: #4cc38a; --warn: #f0a94b; --bad: #ff7b7f; --idle: #5d687b;
    --source: #1b2a41; --step: #282445; --target: #17352a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 1180px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { margin: 0 0 12px; font-size: 26px; letter-spacing: -.01em; overflow-wrap: anywhere; }
h2 { margin: 0 0 12px; font-size: 16px; }
h3 { margin: 16px 0 8px; font-size: 14px; color: var(--soft); }
p { margin: 8px 0; overflow-wrap: anywhere; }
header, section {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px;
  padding: 20px 22px; margin-bottom: 16px;
}
.problem { border-color: var(--bad); }
.problem h2 { color: var(--bad); }
.note { color: var(--warn); }
.facts { display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0 0 8px; }
.facts dt { font-size: 12px; color: var(--soft); }
.facts dd { margin: 0; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.pill {
  display: inline-block; padding: 1px 10px; border-radius: 999px; font-size: 12px;
  font-weight: 600; vertical-align: middle; border: 1px solid currentColor;
}
.pill.succeeded, .pill.ok { color: var(--good); }
.pill.failed, .pill.fail { color: var(--bad); }
.pill.empty, .pill.none { color: var(--soft); }
.pill.warn, .pill.quarantine { color: var(--warn); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th {
  text-align: left; font-weight: 600; font-size: 12px; color: var(--soft);
  padding: 4px 12px 6px 0; border-bottom: 1px solid var(--line); white-space: nowrap;
}
td { padding: 7px 12px 7px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.number { text-align: right; }
td.zero { color: var(--idle); }
td.bar { width: 22%; min-width: 120px; padding-top: 12px; white-space: nowrap; font-size: 0; }
td.bar i { display: inline-block; height: 10px; min-width: 2px; }
i.inserted { background: var(--good); } i.updated { background: var(--warn); }
i.removed { background: var(--bad); } i.unchanged { background: var(--line); }
i.time { background: var(--accent); border-radius: 3px; opacity: .75; }
td.values { overflow-wrap: anywhere; }
td.values b { font-weight: 500; color: var(--soft); }
td.values em { color: var(--idle); }
code {
  font: 13px/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  overflow-wrap: anywhere;
}
.flow { display: block; margin: 0 auto; max-width: none; }
.flow .arrow { fill: none; stroke: var(--idle); stroke-width: 1.4; }
.flow .tip { fill: var(--idle); }
.flow text { fill: var(--ink); font-size: 13px; }
.flow .title { font-weight: 600; }
.flow .detail { fill: var(--soft); font-size: 12px; }
.flow .rows {
  font-size: 12px; fill: var(--soft); font-variant-numeric: tabular-nums;
  paint-order: stroke; stroke: var(--card); stroke-width: 5px; stroke-linejoin: round;
}
.flow rect { stroke: var(--line); stroke-width: 1; }
.flow .source rect { fill: var(--source); }
.flow .step rect { fill: var(--step); }
.flow .target rect { fill: var(--target); }
.flow .bad rect { stroke: var(--bad); stroke-width: 2; }
@media print { body { background: none; } header, section { break-inside: avoid; } }
"""
