"""Constant traffic through real proxies while `admc serve` is restarted, killed, and given other programs.

    programs   what is served, as data: its text, and what each request may meet
    callers    who asks, again and again, and what came of each request
    judge      which programs a request may have met, and whether it fared as one of them says
    bed        a server in a process of its own, Envoys, echo services and callers, on loopback
    agreement  what proxies say of themselves, and whether the server says the same

`python -m tests.serve.traffic --changes 1000` is the long form.
"""
