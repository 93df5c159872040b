"""Engines of the papers: reference points behind the same protocol, loaded only when named."""
