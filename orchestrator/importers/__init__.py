"""Importers of git history, test and SARIF reports, reviews and JSON lines.

They yield entries; the caller captures them. Findings are a folder of their own: `findings`.
"""
