"""Whether a page is well formed and stands alone: what is opened is closed, nothing is loaded, nothing runs."""

import html.parser
import sys


class Check(html.parser.HTMLParser):
    alone = {"meta", "link"}
    open = []

    def handle_starttag(self, tag, attributes):
        names = [name for name, _ in attributes]
        if len(set(names)) != len(names) or tag in {"script", "img", "iframe"}:
            sys.exit(f"{tag} with {names}")
        for name, value in attributes:
            if name in {"src", "style"} or name.startswith("on") or (name == "href" and value != "data:,"):
                sys.exit(f"{name}={value}")
        if tag not in self.alone:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        if self.open.pop() != tag:
            sys.exit(f"</{tag}> at {self.getpos()}")


page = sys.argv[1]
with open(page, encoding="utf-8") as file:
    text = file.read()
check = Check()
check.feed(text)
if check.open or any(part in text for part in ("url(", "@import", "://")):
    sys.exit(f"{page}: left open: {check.open}, or something is loaded")
