"""`make tutorial`: play the day of docs/tutorial.md again and write what comes of it."""

from tests.tutorial import page


def main() -> None:
    """Rewrite the page and its pictures."""
    text = page.PAGE.read_text()
    played = page.play(text)
    page.PAGE.write_text(page.rewritten(text, played, page.costs(text, played)))
    page.draw(played, page.PAGE.parent)


if __name__ == "__main__":
    main()
