"""The look of a page: one scale of type, room, and colours for light and for dark."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1b1b1b; --soft: #5c666a; --line: #dfe4e5; --paper: #ffffff; --card: #f5f8f8;
  --target: #1f6f8b; --draft: #c8553d; --quiet: #8b969a; --blue: #0072b2; --violet: #7a5195;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e9edee; --soft: #9fabaf; --line: #2c3437; --paper: #14191b; --card: #1b2225;
    --target: #6cb8d3; --draft: #ef8a70; --quiet: #87949a; --blue: #5c8ff0; --violet: #b48fd0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink); -webkit-text-size-adjust: 100%;
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
}
main { max-width: 46rem; margin: 0 auto; padding: 3.5rem 1.25rem 5rem; }
h1 { font-size: clamp(1.75rem, 5.5vw, 2.6rem); line-height: 1.18; letter-spacing: -0.02em;
  font-weight: 650; margin: 0 0 1rem; text-wrap: balance; }
h2 { font-size: 1.4rem; line-height: 1.3; letter-spacing: -0.01em; font-weight: 620;
  margin: 0 0 1.25rem; text-wrap: balance; }
section { margin-top: 4rem; }
p { margin: 0 0 1rem; text-wrap: pretty; }
.lead, figcaption, footer, dt { color: var(--soft); }
.answer { background: var(--card); border-radius: 0.75rem; padding: 1.5rem; margin: 2rem 0 0; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.6rem 1.25rem;
  margin: 0 0 1.5rem; }
.answer dl { margin: 0; }
dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 0 0 2rem; }
figcaption, footer, table, pre, summary { font-size: 0.875rem; }
figcaption { margin: 0.5rem 0; max-width: 40rem; }
.picture svg { display: block; width: 100%; max-width: 34rem; height: auto; overflow: visible; }
svg * { stroke-linejoin: round; }
svg text { fill: var(--ink); font-family: inherit !important; }
svg g:has(> title):hover { filter: brightness(1.15); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th { font-weight: 500; color: var(--soft); }
th, td { text-align: left; padding: 0.4rem 1rem 0.4rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
.number { text-align: right; white-space: nowrap; }
th:last-child, td:last-child { padding-right: 0; }
pre { background: var(--card); border-radius: 0.5rem; padding: 0.9rem 1.1rem; margin: 0 0 1rem;
  overflow: auto; max-height: 24rem; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; }
.answer pre { padding: 0; margin: 0; background: none; font-size: 0.9375rem; line-height: 1.7;
  white-space: pre-wrap; overflow-wrap: anywhere; }
details { border-top: 1px solid var(--line); padding: 0.75rem 0; }
details + :not(details) { margin-top: 2rem; }
summary { cursor: pointer; font-size: 1rem; }
details[open] > summary { margin-bottom: 1rem; }
footer { margin-top: 5rem; border-top: 1px solid var(--line); padding-top: 1.5rem; }
@media (max-width: 30rem) {
  main { padding-top: 2rem; }
  section { margin-top: 3rem; }
  .answer { padding: 1.1rem; }
  th, td { padding-right: 0.6rem; }
  dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  dd { margin-bottom: 0.9rem; }
  dd:last-child { margin-bottom: 0; }
}
@media print { figure { break-inside: avoid; } main { max-width: none; padding: 0; } }
"""
