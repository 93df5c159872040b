"""The engines of papers: points of comparison with the same protocol, loaded when named."""
