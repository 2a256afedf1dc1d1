"""Answer extraction: boxes, announcements, last sentences, in seven languages."""
