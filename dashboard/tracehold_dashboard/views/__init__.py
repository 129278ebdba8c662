"""One module a page, each with a `render` function."""
