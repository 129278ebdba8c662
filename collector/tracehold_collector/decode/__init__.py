"""Bytes to records: content codings, encodings, files. What an item means is `normalise`'s business."""
