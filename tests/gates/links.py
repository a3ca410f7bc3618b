#!/usr/bin/env python3
"""Relative links in README.md and docs/ lead to files and headings that exist."""

import re

import gate

LINK = re.compile(r'\[[^\]\n]*\]\(([^)\s]+)\)')
HEADING = re.compile(r'^#+ +(.*?)\s*#*$', re.M)
FENCE = re.compile(r'^(```|~~~).*?^\1', re.M | re.S)


def anchors(text):
    """The heading anchors a page has, the way forges make them."""
    text = FENCE.sub('', text)
    return {re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
            for heading in HEADING.findall(text)}


def violations(root):
    pages = gate.files(root, ('.md',), ('docs',))
    pages += [path for path in gate.files(root, ('.md',)) if len(path.parts) == 1]
    for path in pages:
        text = gate.read(root / path)
        prose = FENCE.sub(lambda match: gate.blank(match[0]), text)
        for match in LINK.finditer(prose):
            link, line = match[1], gate.line_of(prose, match.start())
            if re.match(r'[a-z][a-z0-9+.-]*:', link):
                continue
            name, _, anchor = link.partition('#')
            target = (root / path).parent / name if name else root / path
            if not target.exists():
                yield path, line, f'link to {link}: no such file'
            elif anchor and target.suffix == '.md' and anchor not in anchors(gate.read(target)):
                yield path, line, f'link to {link}: no such heading'


if __name__ == '__main__':
    gate.finish(list(violations(gate.arguments(__doc__).root)))
