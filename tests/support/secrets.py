"""Secrets that are none: made from their formats with a seeded random, 25 kinds, planted in texts that look real.

Nothing here is a literal that a scanner of secrets would take for one: prefixes are put together at run time.
"""

from __future__ import annotations

import base64
import json
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"
URL64 = ALNUM + "-_"
BASE64 = ALNUM + "+/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A text with a secret in it. `structured`: recognised by its own form, not by what stands around it."""

    kind: str
    secret: str
    text: str
    structured: bool


def chars(random: Random, alphabet: str, count: int) -> str:
    return "".join(random.choices(alphabet, k=count))


def _mixed(random: Random, alphabet: str, count: int) -> str:
    """Return random characters with a digit and a letter among them, as any long random text has."""
    while True:
        made = chars(random, alphabet, count)
        if any(c.isdigit() for c in made) and any(c.isalpha() for c in made):
            return made


def google_api_key(r: Random) -> str:
    return r.choice(
        [
            "AI" + "za" + chars(r, URL64, 35),
            "GOCSPX" + "-" + chars(r, URL64, 28),
            "ya29" + ".a0" + chars(r, URL64, r.randint(60, 150)),
        ]
    )


def azure_key(r: Random) -> str:
    return r.choice(
        [
            base64.b64encode(r.randbytes(64)).decode(),  # a storage account's
            chars(r, ALNUM, 3) + "8" + "Q~" + chars(r, ALNUM + "_.-~", 34),  # an application's
        ]
    )


def github_token(r: Random) -> str:
    classic = "gh" + r.choice("pousr") + "_" + chars(r, ALNUM, 36)
    return r.choice([classic, "github" + "_pat_" + chars(r, ALNUM, 22) + "_" + chars(r, ALNUM, 59)])


def slack_token(r: Random) -> str:
    def digits() -> str:
        return chars(r, string.digits, r.randint(10, 13))

    hook = "https://hooks.slack" + ".com/services/T" + chars(r, UPPER, 8) + "/B" + chars(r, UPPER, 10)
    return r.choice(
        [
            "xo" + "xb-" + digits() + "-" + digits() + "-" + chars(r, ALNUM, 24),
            "xo" + "xp-" + digits() + "-" + digits() + "-" + digits() + "-" + chars(r, HEX, 32),
            "xa" + "pp-1-A" + chars(r, UPPER, 10) + "-" + digits() + "-" + chars(r, HEX, 64),
            hook + "/" + chars(r, ALNUM, 24),
        ]
    )


def stripe_key(r: Random) -> str:
    kind = r.choice(["sk", "rk"]) + r.choice(["_live_", "_test_"])
    return r.choice([kind + chars(r, ALNUM, r.choice([24, 99])), "wh" + "sec_" + chars(r, ALNUM, 32)])


def openai_key(r: Random) -> str:
    middle = "T3Blbk" + "FJ"
    return r.choice(
        [
            "sk" + "-" + chars(r, ALNUM, 20) + middle + chars(r, ALNUM, 20),
            "sk" + "-proj-" + chars(r, URL64, 74) + middle + chars(r, URL64, 74),
            "sk" + "-svcacct-" + chars(r, URL64, 58) + middle + chars(r, URL64, 58),
        ]
    )


def jwt(r: Random) -> str:
    def part(value: dict[str, object]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    head = part({"alg": r.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"})
    body = part({"sub": chars(r, string.digits, 10), "name": chars(r, ALNUM, 8), "iat": r.randint(10**9, 2 * 10**9)})
    return f"{head}.{body}." + chars(r, URL64, r.choice([43, 86, 342]))


def private_key(r: Random) -> str:
    named = r.choice(["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""]) + "PRIVATE KEY"
    lines = [chars(r, BASE64, 64) for _ in range(r.randint(3, 25))] + [chars(r, BASE64, r.randint(4, 60)) + "=="]
    dashes = "-" * 5
    told = "\n".join([f"{dashes}BEGIN {named}{dashes}", *lines, f"{dashes}END {named}{dashes}"])
    return told if r.random() < 0.7 else told.replace("\n", "\\n")  # as in JSON


def password(r: Random) -> str:
    """Return a password as people and generators make them."""
    word = r.choice(["winter", "Dragon", "falcon", "Porto", "monday", "Kestrel", "orchid", "Summit"])
    marks = "!#$%*+?_^~.-"
    return r.choice(
        [
            word + chars(r, string.digits, r.randint(2, 4)) + r.choice(["", r.choice(marks)]),
            word + r.choice(marks) + chars(r, ALNUM, 5) + chars(r, string.digits, 1),
            _mixed(r, ALNUM, r.randint(10, 24)),
            _mixed(r, ALNUM + marks, r.randint(12, 32)),
        ]
    )


def secret(r: Random) -> str:
    """Return a key of a service nobody knows the format of."""
    return r.choice(
        [
            _mixed(r, HEX, 32),
            _mixed(r, HEX, 64),
            _mixed(r, ALNUM, r.randint(20, 48)),
            _mixed(r, URL64, r.randint(24, 64)).strip("-_"),
            base64.b64encode(r.randbytes(32)).decode(),
        ]
    )


_NAMES = ("jane", "tomasz", "mei", "o.haddad", "r_okafor", "lucia.fernandez", "anna-lena", "b.smith42", "priya")
_HOUSES = ("kellerbau", "northwind-it", "fjordmail", "acmecorp", "gmail", "uni-lund", "oakridge", "web")


def email(r: Random) -> str:
    ending = r.choice(["com", "org", "de", "co.uk", "io", "se", "net", "edu"])
    return f"{r.choice(_NAMES)}{r.choice(['', '', chars(r, string.digits, 2)])}@{r.choice(_HOUSES)}.{ending}"


def phone(r: Random) -> str:
    def digits(count: int) -> str:
        return chars(r, "23456789", 1) + chars(r, string.digits, count - 1)

    return r.choice(
        [
            f"+49 {r.choice([30, 40, 151, 170])} {digits(4)}{digits(4)}",
            f"+1 ({digits(3)}) {digits(3)}-{digits(4)}",
            f"+1-{digits(3)}-{digits(3)}-{digits(4)}",
            f"+44 20 {digits(4)} {digits(4)}",
            f"+33 6 {digits(2)} {digits(2)} {digits(2)} {digits(2)}",
            f"+91{digits(10)}",
            f"({digits(3)}) {digits(3)}-{digits(4)}",
            f"{digits(3)}-{digits(3)}-{digits(4)}",
        ]
    )


def iban(r: Random) -> str:
    country, letters, count = r.choice(
        [("DE", 0, 18), ("FR", 0, 23), ("GB", 4, 14), ("NL", 4, 10), ("ES", 0, 20), ("CH", 0, 17), ("NO", 0, 11)]
    )
    account = chars(r, string.ascii_uppercase, letters) + chars(r, string.digits, count)
    number = "".join(str(int(c, 36)) for c in account + country + "00")
    told = f"{country}{98 - int(number) % 97:02}{account}"
    return told if r.random() < 0.5 else " ".join(told[i : i + 4] for i in range(0, len(told), 4))


def credit_card(r: Random) -> str:
    start, length = r.choice([("4", 16), ("51", 16), ("55", 16), ("37", 15), ("6011", 16), ("2221", 16)])
    digits = start + chars(r, string.digits, length - len(start) - 1)
    total = sum(sum(divmod(int(d) * (2 - i % 2), 10)) for i, d in enumerate(reversed(digits)))
    told = digits + str(-total % 10)
    if r.random() < 0.5:
        return told
    cuts = (0, 4, 10, 15) if length == 15 else (0, 4, 8, 12, 16)
    return r.choice(" -").join(told[a:b] for a, b in pairwise(cuts))


_HOSTS = ("db.internal", "10.2.0.14", "cache-3.prod.northwind.net", "localhost", "rabbit")

_BARE = (
    "{}",
    "using key {}",
    "2026-03-04T11:20:31Z ERROR auth failed for {} (401)",
    'client = Client("{}")',
    "E       AssertionError: unexpected call with '{}'",
    '{{"event": "login", "credential": "{}", "ok": false}}',
    "export CREDENTIAL={}",
    "-H 'X-Key: {}'",
    "token: {}",
    "https://api.brightpath.io/v1/items?key={}&page=2",
    "Invalid credential: {}.",
    "config[<{}>] rejected",
)
_LINES: dict[str, Sequence[str]] = {
    "aws-secret-key": (
        "aws_secret_access_key = {}",
        'AWS_SECRET_ACCESS_KEY="{}"',
        '"SecretAccessKey": "{}",',
        "export AWS_SECRET_ACCESS_KEY={}",
        "boto3.client('s3', aws_secret_access_key='{}')",
        "secretAccessKey: {}",
    ),
    "azure-key": (
        "DefaultEndpointsProtocol=https;AccountName=prodlogs;AccountKey={};EndpointSuffix=core.windows.net",
        "AZURE_CLIENT_SECRET={}",
        'account_key="{}"',
        "Endpoint=sb://bus.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={}",
        '"clientSecret": "{}"',
    ),
    "private-key": ("{}", "loaded:\n{}\nok", 'key = """{}"""', '{{"private_key": "{}"}}'),
    "url-password": (
        "postgresql://app:{}@{host}:5432/orders",
        "could not connect to redis://:{}@{host}:6379/0",
        "amqp://worker:{}@{host}/vhost",
        "fatal: unable to access 'https://deploy:{}@git.northwind.net/team/repo.git/': 403",
        "mongodb+srv://root:{}@{host}/?retryWrites=true",
        "DATABASE_URL=mysql+pymysql://root:{}@{host}/shop",
        "curl http://admin:{}@{host}:8080/health",
        "sqlalchemy.exc.OperationalError: (psycopg2) postgres://svc:{}@{host}/db",
        "jdbc:oracle:thin:scott/{}@//{host}:1521/orders",
    ),
    "authorization": (
        "Authorization: Bearer {}",
        "curl -H 'Authorization: Bearer {}' https://api.brightpath.io/v1",
        '{{"authorization": "Bearer {}"}}',
        "headers={{'Authorization': 'Token {}'}}",
        "> Authorization: Basic {}",
        "sent bearer {} to the gateway",
    ),
    "password": (
        "DB_PASSWORD={}",
        'password="{}"',
        "password: {}",
        "{{'user': 'svc', 'password': '{}'}}",
        '{{"username": "svc", "password": "{}"}}',
        "mysql --user=root --password={} shop",
        "login failed: user=jane password={} host=web-2",
        "spring.datasource.password={}",
        "Server=db;User Id=sa;Password={};Encrypt=true",
        "The password is {}",
        "smtp_pass = '{}'",
        "<password>{}</password>",
        "PGPASSWORD={} psql -h db",
        'adminPassword: "{}"',
        "passphrase='{}'",
        "- name: DB_PASSWORD\n  value: {}",
        '{{"name": "DB_PASSWORD", "value": "{}"}}',
        '<add key="Password" value="{}"/>',
        "machine git.northwind.net login deploy password {}",
        "ENV DB_PASSWORD {}",
        "ALTER ROLE app WITH PASSWORD '{}';",
        "CREATE USER app IDENTIFIED BY '{}'",
        "curl -u jane:{} https://git.northwind.net/api",
        "sshpass -p '{}' ssh web-2",
        "docker login -u ci -p {} registry.northwind.net",
        "Passwort: {}",
        "пароль: {}",
        "密码\uff1a{}",
    ),
    "secret": (
        "API_KEY={}",
        'api_key="{}"',
        '{{"apiKey": "{}"}}',
        "X-Api-Key: {}",
        "client_secret={}&grant_type=client_credentials",
        "secret: {}",
        "SECRET_KEY = '{}'",
        "GET /v1/search?access_token={}&q=shoes HTTP/1.1",
        "auth_token: {}",
        "{{'refresh_token': '{}', 'expires_in': 3600}}",
        "--api-key {}",
        "ENCRYPTION_KEY={}",
        "webhookSecret: '{}'",
        'hmac_key = "{}"',
        "Set-Cookie: session={}; Path=/; HttpOnly",
    ),
    "email": (
        "From: {}",
        "user {} not found",
        '{{"email": "{}"}}',
        "Signed-off-by: Jane Doe <{}>",
        "ask {} about it.",
        "mailto:{}",
        "duplicate key value violates unique constraint: (email)=({}) already exists.",
    ),
    "phone": (
        "phone: {}",
        "call {} when it is down",
        '{{"phone_number": "{}"}}',
        "Contact: {}.",
        "SMS to {} was not delivered",
        "tel:{}",
        "ValueError: bad number '{}'",
    ),
    "iban": ("IBAN {}", "transfer to {} failed", '{{"iban": "{}"}}', "account={}", "payee: {}, amount 20.00 EUR"),
    "credit-card": ("card {} declined", '{{"pan": "{}"}}', "number={}", "charge on {} failed: 402", "Card: {}"),
}

MAKERS: dict[str, Callable[[Random], str]] = {
    "aws-access-key": lambda r: r.choice(["AK", "AS"]) + "IA" + chars(r, string.ascii_uppercase + "234567", 16),
    "aws-secret-key": lambda r: _mixed(r, BASE64, 40),
    "google-api-key": google_api_key,
    "azure-key": azure_key,
    "github-token": github_token,
    "gitlab-token": lambda r: (
        r.choice(["glpat", "gldt", "glrt", "glptt", "glcbt"]) + "-" + chars(r, URL64, r.choice([20, 20, 26, 40]))
    ),
    "slack-token": slack_token,
    "stripe-key": stripe_key,
    "openai-key": openai_key,
    "anthropic-key": lambda r: "sk" + "-ant-" + r.choice(["api03", "admin01"]) + "-" + chars(r, URL64, 93) + "AA",
    "npm-token": lambda r: "npm" + "_" + chars(r, ALNUM, 36),
    "pypi-token": lambda r: "pypi" + "-AgEI" + "cHlwaS5vcmc" + chars(r, URL64, r.randint(120, 180)),
    "twilio-key": lambda r: "S" + "K" + chars(r, HEX, 32),
    "sendgrid-key": lambda r: "S" + "G." + chars(r, URL64, 22) + "." + chars(r, URL64, 43),
    "huggingface-token": lambda r: "h" + "f_" + chars(r, ALNUM, 34),
    "jwt": jwt,
    "private-key": private_key,
    "url-password": lambda r: _mixed(r, ALNUM + "!*._~-", r.randint(8, 24)),
    "authorization": secret,
    "password": password,
    "secret": secret,
    "email": email,
    "phone": phone,
    "iban": iban,
    "credit-card": credit_card,
}
"""The 25 kinds, by the name that stands in the placeholder."""

UNSTRUCTURED = frozenset({"password", "secret", "phone"})

_AROUND = (
    (
        "Traceback (most recent call last):\n"
        '  File "/srv/app/orders/service.py", line 214, in place\n'
        "    receipt = gateway.charge(order, retries=3)\n"
        "{}\n"
        "orders.errors.GatewayError: the gateway answered 502 after 3 tries"
    ),
    (
        "FAILED tests/test_checkout.py::test_total[EUR-3] - AssertionError: assert 1299 == 1300\n{}\n"
        "1 failed, 41 passed in 3.12s"
    ),
    "Deploy of 4f1c9a7e2b8d0c6f5a3e1d9b7c5f3a1e8d6b4c2a to web-2 failed.\n{}\nRolled back to v2.14.1.",
    (
        "2026-03-04 11:20:30,511 INFO  worker-7 request 9b2f6c1e-5d7a-4c3b-8e1f-0a2d4c6e8b1f\n{}\n"
        "2026-03-04 11:20:31,002 ERROR worker-7 gave up after 491 ms"
    ),
    (
        "The integration step cannot reach the service since the last change of the settings. Steps taken:\n"
        "1. read the log\n2. found this: {}\n3. restarted the container with the right settings, it works"
    ),
    "npm ERR! code ELIFECYCLE\nnpm ERR! errno 1\n{}\nnpm ERR! A complete log is in /root/.npm/_logs/2026-03-04.log",
    "$ make deploy\n{}\nmake: *** [Makefile:31: deploy] Error 1",
)


def around(random: Random, line: str) -> str:
    return random.choice(_AROUND).replace("{}", line)


def planted(count: int, *, seed: int) -> list[Planted]:
    """Return as many texts with one secret each, the kinds in turn."""
    random = Random(seed)
    made = []
    for number in range(count):
        kind = list(MAKERS)[number % len(MAKERS)]
        told = MAKERS[kind](random)
        line = random.choice(_LINES.get(kind, _BARE)).format(told, host=random.choice(_HOSTS))
        text = around(random, line)
        made.append(Planted(kind=kind, secret=told, text=text, structured=kind not in UNSTRUCTURED))
    return made


_LENGTH = 12


def survives(secret: str, text: str) -> bool:
    """Whether twelve characters in a row of a secret, or all of a shorter one, are still in a text."""
    return any(piece in text for piece in _pieces(secret))


def surviving(secrets: Sequence[Planted], text: str) -> list[Planted]:
    """Return the secrets that survive in a long text."""
    pieces = {piece for each in secrets for piece in _pieces(each.secret) if len(piece) == _LENGTH}
    starts = range(len(text) - _LENGTH + 1)
    there = {piece for start in starts if (piece := text[start : start + _LENGTH]) in pieces}
    return [
        each
        for each in secrets
        if not there.isdisjoint(_pieces(each.secret)) or (len(each.secret) < _LENGTH and each.secret in text)
    ]


def _pieces(secret: str) -> list[str]:
    length = min(_LENGTH, len(secret))
    return [secret[start : start + length] for start in range(len(secret) - length + 1)]


BENIGN = (
    "commit 4f1c9a7e2b8d0c6f5a3e1d9b7c5f3a1e8d6b4c2a (HEAD -> main, tag: v2.14.1)",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08  dist/app-2.14.1-py3-none-any.whl",
    "request 9b2f6c1e-5d7a-4c3b-8e1f-0a2d4c6e8b1f took 1299 ms",
    "entry 7d444840-9dc0-11d1-b245-5ffdce74fad2 is open",
    "at 2026-03-04T11:20:31.511203+0000 (1772623231511203)",
    "pool 0x7f3a9c2d1e80, thread 140234567890176, object at 0x7f8b8c0d5f10",
    "numpy==2.1.3 requires python_version >= '3.11'",
    "git@github.com:team/repo.git at refs/heads/fix-token-refresh-2",
    'password = os.environ["DB_PASSWORD"]',
    "password: str | None = None",
    "token = tokenizer.next_token(source, position_2)",
    "api_key=${API_KEY}",
    "max_tokens=4096, next_page_token=None, token_type=bearer",
    "This password is too short. It must contain at least 8 characters.",
    "secret = get_secret('projects/1/secrets/name')",
    "def login(self, password=None, token='', secret_key=settings.SECRET_KEY):",
    "postgresql://user:password@localhost/db and https://${USER}:${PASSWORD}@host/",
    "assert y == x@w.T + b.shape[0]; @pytest.mark.parametrize('a', [1, 2])",
    "user@example.com is the address in the documentation",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
    "listening on 127.0.0.1:8420, peer fe80::1ff:fe23:4567:890a",
    "Error: Cannot find module '/srv/app/node_modules/.pnpm/left-pad@1.3.0/node_modules/left-pad/index.js'",
    "basic authentication failed, bearer authentication is required",
    "Authorization header is missing",
    "0.1234567890123456 != 0.1234567890123457, 4503599627370496 rows",
    "SKIPPED [3] tests/test_io.py:77: needs the network; sk-learn is missing; SG.close() was not called",
    "integrity sha512-Wq0S0wM1P9mJbUZNDhX1yWJqT0zJZKp3Qz5cI1FlqWmF3xOYbQwB5Rk0zWb3yI0nYB5a9u4Z1Qm7TzX8Qd0v0g==",
    "user@1000.service: Main process exited, code=exited, status=203/EXEC",
    "tel. the operator on 2026-03-04, order 4711-0815-2, lines 100-200",
    "Cookie: theme=dark; lang=de",
    "-----BEGIN PRIVATE KEY----- is missing in key.pem",
    "PWD=/Users/jane/Orders2 OLDPWD=/Users/jane HOME=/Users/jane",
    "first_pass: 0.9871s, second-pass=12.5ms, pass: 41/42, pass: v1.2.3",
    'session_key: f"session:{user_id}:v2"',
    "at NetworkConnectionFactory.create.defaultConnectionForTheCurrentUser(Native Method)",
    "pull docker://alpine:3.18@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "GET http://localhost:4873/@team/left-pad and http://[::1]:8080/@team/left-pad",
    "mysql -u root -p orders_2 and the password for login 4 of 5",
    '"auth": "user:group" and "auth": "Zm9vYmFy"',
    "kubectl get secret db -o jsonpath={.data.password} | base64 -d and get_password | base64",
    "docker run -p 8080:80 nginx; redis-cli -p 6379; mysql -h db -P 33060; helm registry login -u ci r.io",
    "password = get_password('db-prod-1'); assert check_password('s', hashed)",
    "| password | string | required, 8-64 chars |",
    "<td>Password</td><td>string, 8 to 64</td>",
    "Enter the password twice in 30 s; the password 8-16 characters long",
    "git+https://github.com/team/repo.git@4f1c9a7e2b8d0c6f5a3e1d9b7c5f3a1e8d6b4c2a#egg=orders",
    "x-amz-content-sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "?key=orders/2024/01/report_final_2.pdf and cache_key=user:9b2f6c1e5d7a:profile_v2",
    '("authorization", "x-amz-content-sha256", "x-amz-security-token")',
    "cp $1$HOME/projects/some-directory/file and $1$SOME_LONG_VARIABLE_NAME_THAT_IS_SET, $1$2$3$4$5$6$7$8$9$10$11",
    "request api-550e8400-e29b-41d4-a716-446655440000 took 3 s",
    "sdk-platform-tools-34.0.5, fw_update_available_v2_1, nfp_total_weight_in_kilogram",
    "rnd_thenumberofroundsofthegame2, fw_updateavailableforversion2, v2.public.api.users.list, v4.local.settings",
    "Cookie: lang=en; theme=dark_mode_2; consent=analytics-2024-01-01; pw: 0.98765 and PW=12.5mm",
    "password = &config.password; secret: !Ref DatabaseSecret2; password: !GetAtt Database1.Password; token: *anchor_2",
    'variable "db_password" {\n  type = string\n  default = null\n}',
    "login as the account of orders, basic account setup: Basic authentication with the account password",
)
"""Lines with nothing to hide, some of which look as if."""
