"""Small programs that the tests of the application share."""

from __future__ import annotations

from pathlib import Path

SHOP = """\
app shop

external internet

service frontend   { http 8080  replicas 2 }
service search     { grpc 8082 }
service geo, rate  { grpc 8083 }
service mongo_rate { tcp 27017  no adm }

call internet -> frontend { rate 800/s  size 350B }
call frontend -> search   { rate 200/s  size 420B }
call search   -> geo, rate
call rate     -> mongo_rate

policy quota     = rate_limit(requests: 400, per: 1s)  on * -> search
policy who_reads = allow(callers: [search])            on * -> rate
policy flaky_geo = retry(attempts: 3)                  on search -> geo
policy unused    = request_count()                     on geo -> rate
"""
"""Has an external, two replicas, a service without ADM, a closed destination or guard, and a warning."""

IMPOSSIBLE = """\
app shop

service cart { http 8080 }
service db   { http 8081  no adm }

call cart -> db

@ingress
policy quota = rate_limit(requests: 5, per: 1s) on cart -> db
"""

WRONG = """\
app shop

service cart { http 8080 }
service web  { http 8081 }
call web -> crat
policy quota = rate_limit(requests: fast, per: 1s) on web -> cart
"""


def write(folder: Path, text: str, name: str = "policies.adm") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
