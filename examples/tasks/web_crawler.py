"""A web crawler: a frontier of pages on an actor, and crawlers that share it. It reads a server that this program starts."""

import http.server
import re
import threading
import urllib.error
import urllib.request

import rtrain
from rtrain.util import ActorPool

LINKS = {"/": ["/a", "/b"], "/a": ["/c", "/b"], "/b": ["/d"], "/c": ["/"], "/d": ["/d", "/missing"]}


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        links = LINKS.get(self.path)
        self.send_response(404 if links is None else 200)
        self.end_headers()
        self.wfile.write("".join(f'<a href="{link}">' for link in links or []).encode())

    def log_message(self, format: str, *_: object) -> None:
        """Writes no log."""


class Crawler:
    def __init__(self, site: str) -> None:
        self.site = site

    def links(self, page: str) -> tuple[str, list[str] | None]:
        """Returns the page and its links; None where there is no such page."""
        try:
            with urllib.request.urlopen(self.site + page, timeout=10) as answer:
                return page, re.findall(r'href="([^"]+)"', answer.read().decode())
        except urllib.error.HTTPError:
            return page, None


if __name__ == "__main__":
    rtrain.init()
    here = rtrain.util.get_node_ip_address()
    server = http.server.ThreadingHTTPServer((here, 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://{here}:{server.server_port}"
    pool = ActorPool([rtrain.remote(Crawler).remote(site) for _ in range(2)])
    seen, broken = {"/"}, []
    pool.submit(lambda crawler, page: crawler.links.remote(page), "/")
    while pool.has_next():
        page, links = pool.get_next_unordered()
        broken += [page] if links is None else []
        for link in sorted(set(links or []) - seen):
            seen.add(link)
            pool.submit(lambda crawler, page: crawler.links.remote(page), link)
    server.shutdown()
    print(f"{len(seen)} pages: {' '.join(sorted(seen))}; broken: {' '.join(broken)}")
