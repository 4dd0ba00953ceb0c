"""A chapter that does not build: what is refused, one paragraph each, with the figures for it."""

from derive.book import Chapter

chapter = Chapter("02", "Refused")
llama = chapter.model("llama-3-70b")
chapter.shown("width", llama["F"])
chapter.claim("layers", llama["layers"])
chapter.claim("parameters", llama.parameters)
chapter.shown("unused", llama["D"])
