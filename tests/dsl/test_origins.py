"""Origins of `cors`: what browsers send, one `*.` for subdomains, and nothing that would admit no page."""

from __future__ import annotations

import pytest

import dsl
from dsl.diagnostics.diagnostic import ProgramError
from dsl.values.origins import admits, admitted, wrong_origin

PROGRAM = """app origins
external internet
service web {{ http 8080 }}
call internet -> web
policy pages = cors(origins: ["{origin}"]) on internet -> web
"""
GOOD = (
    *("*", "null", "https://shop.example", "http://localhost:3000", "https://a.b-c.example:8443", "https://[::1]:8443"),
    *("http://127.0.0.1:8080", "https://xn--bcher-kva.example", "chrome-extension://abcdefghijklmnop"),
    *(
        "capacitor://localhost",
        "https://*.example.com",
        "http://*.example.com:8080",
        "https://*.x",
        "https://*.localhost",
    ),
)
WRONG = {
    "https://shop.example/": 'write `"https://shop.example"`',
    "https://shop.example/a?b#c": 'write `"https://shop.example"`',
    "https://shop.example?": 'write `"https://shop.example"`',
    "https://Shop.Example": 'write `"https://shop.example"`',
    "HTTPS://shop.example": 'write `"https://shop.example"`',
    "https://shop.example:443": 'write `"https://shop.example"`',
    "http://*.shop.example:80": 'write `"http://*.shop.example"`',
    "https://shop.example:65536": "number up to 65535",
    "https://shop.example:0443": "number up to 65535",
    "https://shop.example:": "a scheme, a host",
    "https://bücher.example": "xn--",
    "https://*": "right before the host",
    "https://*.": "a scheme, a host",
    "https://*.*.example": "right before the host",
    "https://**.example": "right before the host",
    "https://*example.com": "right before the host",
    "https://a*.example.com": "right before the host",
    "https://a.*.example": "right before the host",
    "https://example.*": "right before the host",
    "https://example.com:*": "right before the host",
    "*://example.com": "right before the host",
    "*.example.com": "right before the host",
    "**": "right before the host",
    "http*://example.com": "right before the host",
    "chrome-extension://*": "right before the host",
    "https://*.127.0.0.1": "no subdomains",
    "https://*.[::1]": "right before the host",
    "shop.example": "a scheme, a host",
    "https://a b": "a scheme, a host",
    "https://user@shop.example": "a scheme, a host",
    "https://a,https://b": "a scheme, a host",
    "": "a scheme, a host",
    "NULL": 'write `"null"`',
}


@pytest.mark.parametrize("origin", GOOD)
def test_an_origin_that_a_page_can_have_is_accepted(origin: str) -> None:
    assert wrong_origin(origin) is None
    dsl.load_text(PROGRAM.format(origin=origin), "test.adm")
    assert admits(origin, admitted(origin))


@pytest.mark.parametrize("origin", list(WRONG))
def test_one_that_no_browser_sends_is_refused_with_what_to_write(origin: str) -> None:
    with pytest.raises(ProgramError) as caught:
        dsl.load_text(PROGRAM.format(origin=origin), "test.adm")
    (error,) = [each for each in caught.value.diagnostics if each.severity.value == "error"]
    assert error.code == "ADM215"
    assert WRONG[origin] in f"{error.cause} {error.hint}"


@pytest.mark.parametrize(
    ("item", "origin", "admitted_"),
    [
        ("https://*.example.com", "https://a.example.com", True),
        ("https://*.example.com", "https://a.b.c.example.com", True),
        ("https://*.example.com", "https://xn--a.example.com", True),
        ("https://*.example.com", "https://example.com", False),
        ("https://*.example.com", "https://.example.com", False),
        ("https://*.example.com", "https://evilexample.com", False),
        ("https://*.example.com", "https://a.example.com.evil.com", False),
        ("https://*.example.com", "https://a.exampleXcom", False),
        ("https://*.example.com", "https://a-example-com", False),
        ("https://*.example.com", "https://a.example.com:8443", False),
        ("https://*.example.com", "http://a.example.com", False),
        ("https://*.example.com", "https://evil.com/a.example.com", False),
        ("https://*.example.com", "https://evil.com?.example.com", False),
        ("https://*.example.com", "https://evil.com:1.example.com", False),
        ("https://*.example.com", "https://a.example.com, https://evil.com", False),
        ("https://*.example.com", "https://a.example.com\nhttps://evil.com", False),
        ("https://*.example.com", "null", False),
        ("https://*.example.com:8443", "https://a.example.com:8443", True),
        ("https://*.example.com:8443", "https://a.example.com", False),
        ("https://example.com", "https://a.example.com", False),
        ("null", "https://null", False),
        ("*", "null", True),
    ],
)
def test_which_origins_an_item_admits(item: str, origin: str, admitted_: bool) -> None:
    assert admits(item, origin) is admitted_


@pytest.mark.parametrize("arguments", ['methods: ["G*"]', 'headers: ["x-*"]', 'expose: ["x-*", "x-a"]'])
def test_a_star_inside_a_word_would_be_a_letter(arguments: str) -> None:
    text = PROGRAM.format(origin="*").replace("]) on", f"], {arguments}) on")
    with pytest.raises(ProgramError, match="ADM215"):
        dsl.load_text(text, "test.adm")
