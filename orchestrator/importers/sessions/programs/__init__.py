"""Tool calls of programs: their arguments and results, as whoever tells them writes these; and runs told over HTTP."""
