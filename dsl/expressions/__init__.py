"""The languages of regular expressions, and whether some text is in several of them."""
