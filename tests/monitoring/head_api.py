"""Asks a head of these tests over its API, as a user with a token of a role."""

import json
import ssl
import urllib.error
import urllib.request


class Api:
    def __init__(self, cluster, role="viewer"):
        self.cluster = cluster
        self.token = cluster.json("token", "create", "--role", role, "--user", "someone")["token"]
        self.tls = ssl.create_default_context(cafile=cluster.folder / "head" / "ca.crt")
        self.tls.check_hostname = False  # the certificate's name is rtrain-head at any address

    def text(self, path):
        request = urllib.request.Request(
            f"https://{self.cluster.head_address()}{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, context=self.tls, timeout=60) as answer:
            return answer.read().decode()

    def get(self, path):
        return json.loads(self.text(path))

    def status(self, path):
        try:
            self.text(path)
            return 200
        except urllib.error.HTTPError as refused:
            return refused.code
