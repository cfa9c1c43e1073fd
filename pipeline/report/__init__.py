"""Comparisons and benchmarks as HTML files that need nothing else: no network, no server, no fonts.

comparison -> decisions_view, runs_view (what is said) + plots (where marks lie)
           -> build: template.html, style.css, script.js -> text
"""
