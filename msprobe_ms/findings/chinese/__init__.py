"""Messages in Chinese, by their English templates; `translations.py` has all of them."""
