"""A comparison as one HTML file that needs nothing else: no network, no server, no fonts.

comparison -> views (what is said) + plots (where marks lie) -> template -> text
"""
