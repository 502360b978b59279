#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""usage: links.py DIRECTORY

Checks the pages below DIRECTORY: what they link to and show is there, and so is the place within
the page that they name; no style, script, picture or font comes from another host."""
import html.parser
import os
import re
import sys
import urllib.parse

# (tag, attribute): what a browser loads by itself, and what it follows.
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("object", "data"),
          ("iframe", "src"), ("source", "src"), ("source", "srcset"), ("embed", "src")}
FOLLOWED = {("a", "href")}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.loaded, self.followed, self.places = [], [], {"", "top"}
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            value = (value or "").strip()
            if key == "id" or (tag, key) == ("a", "name"):
                self.places.add(value)
            elif (tag, key) in LOADED:
                self.loaded.append(value)
            elif (tag, key) in FOLLOWED:
                self.followed.append(value)


def files_below(directory, end):
    for folder, _, names in sorted(os.walk(directory)):
        for name in sorted(names):
            if name.endswith(end):
                yield os.path.normpath(os.path.join(folder, name))


def wrong_target(path, target, pages):
    """Why a link of the page `path` is wrong, or None."""
    parts = urllib.parse.urlsplit(target)
    if parts.scheme or parts.netloc:
        return None
    to = path if not parts.path else os.path.normpath(
        os.path.join(os.path.dirname(path), urllib.parse.unquote(parts.path)))
    if not os.path.exists(to):
        return "is not there"
    if to in pages and urllib.parse.unquote(parts.fragment) not in pages[to].places:
        return "names no place of that page"
    return None


def is_foreign(target):
    parts = urllib.parse.urlsplit(target)
    return parts.netloc or parts.scheme not in ("", "data", "javascript")


def main(directory):
    pages = {path: Page(path) for path in files_below(directory, ".html")}
    wrong = set()
    for path, page in pages.items():
        for target in page.loaded + page.followed:
            why = wrong_target(path, target, pages)
            if why:
                wrong.add(f"{path}: {target} {why}")
        wrong.update(f"{path}: loads {target} from another host"
                     for target in page.loaded if is_foreign(target))
    for path in files_below(directory, ".css"):
        with open(path, encoding="utf-8") as file:
            wrong.update(f"{path}: loads {target} from another host" for target in re.findall(
                r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')]+)", file.read()))
    print("\n".join(sorted(wrong)) or f"{len(pages)} pages")
    return 1 if wrong or len(pages) < 20 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
