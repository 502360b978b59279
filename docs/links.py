#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: links.py DIRECTORY

Checks that the images and pages that the API pages name exist, and their tutorial."""
import html.parser
import os
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.names = []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        self.names += [value for key, value in attrs
                       if (tag, key) in (("img", "src"), ("a", "href"), ("object", "data"))]


def main(directory):
    pages = [name for name in sorted(os.listdir(directory)) if name.endswith(".html")]
    missing = set()
    for name in pages:
        for target in Page(os.path.join(directory, name)).names:
            parts = urllib.parse.urlsplit(target or "")
            path = urllib.parse.unquote(parts.path)
            if not parts.scheme and path and not os.path.exists(os.path.join(directory, path)):
                missing.add(f"{name}: {target} is not there")
    if "near_seq.html" not in pages:
        missing.add("near_seq.html: the tutorial is not there")
    print("\n".join(sorted(missing)) or f"{len(pages)} pages")
    return 1 if missing or len(pages) < 20 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
