"""Where the answer is: boxes, announcements, last sentences, in seven languages."""
