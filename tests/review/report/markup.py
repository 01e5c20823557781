"""What a browser would make of the text of a page."""

from __future__ import annotations

from html.parser import HTMLParser


class Markup(HTMLParser):
    """Tags in order, all attributes, and the text of each block of script or style."""

    def __init__(self, content: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.blocks: list[tuple[str, dict[str, str | None], str]] = []
        self._open: tuple[str, dict[str, str | None]] | None = None
        self.feed(content.decode("utf-8"))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag in ("script", "style"):
            self._open = (tag, dict(attrs))
            self.blocks.append((tag, dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            tag, attributes, text = self.blocks[-1]
            self.blocks[-1] = (tag, attributes, text + data)

    def block(self, tag: str, kind: str | None = None) -> list[str]:
        """Texts of the blocks with this tag and `type`."""
        return [text for name, attributes, text in self.blocks if name == tag and attributes.get("type") == kind]
